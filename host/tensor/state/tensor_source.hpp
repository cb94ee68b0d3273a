// SPDX-License-Identifier: Apache-2.0
//
// A tensor that is not in memory: its elements are computed, or read from storage, on demand. So a
// state is loaded directly to its destination, and a state larger than the free memory can be
// written.
// Threads: any, several at once.
#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tenon {

class TensorSource {
 public:
  TensorSource(at::ScalarType dtype, std::vector<int64_t> shape)
      : dtype_(dtype), shape_(std::move(shape)) {}
  virtual ~TensorSource() = default;

  at::ScalarType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : shape_) {
      product *= size;
    }
    return product;
  }

  // Fills `out` with the elements from `first` on, counted in the flattened tensor. `out` is a
  // contiguous CPU tensor of the same dtype.
  // Errors  those of the source
  virtual void read(int64_t first, const at::Tensor& out) const = 0;

  // Fills `out` with the elements of a piece, in order: by default, with a read() of each run.
  // Shapes  out: any of the piece's numel(), contiguous, on the CPU, of the same dtype
  // Errors  those of the source
  virtual void read_piece(const TensorPiece& piece, const at::Tensor& out) const;

  // Returns all elements in a new tensor.
  at::Tensor whole() const;

 private:
  at::ScalarType dtype_;
  std::vector<int64_t> shape_;
};

}  // namespace tenon
