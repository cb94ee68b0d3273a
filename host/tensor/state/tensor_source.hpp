// SPDX-License-Identifier: Apache-2.0
//
// A tensor that is not in memory: its elements are made, or read from where they are kept, when
// somebody asks for them. So a state is loaded straight to where it belongs, and one that is larger
// than what memory is left can be written.
// Threads: any, several at once.
#pragma once

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

  // Fills `out` with the elements from `first` on, counted through the flattened whole. `out` is a
  // contiguous CPU tensor of the same dtype.
  // Errors  what reading them may end in
  virtual void read(int64_t first, const at::Tensor& out) const = 0;

  // All of it, in a new tensor.
  at::Tensor whole() const;

 private:
  at::ScalarType dtype_;
  std::vector<int64_t> shape_;
};

}  // namespace tenon
