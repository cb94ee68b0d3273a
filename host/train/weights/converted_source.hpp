// SPDX-License-Identifier: Apache-2.0
//
// Reads a parameter from rows of another tensor source, transposed if necessary, and converts it to
// the run's dtype of the parameter.
// Threads: any, concurrently, if the underlying source allows that.
#pragma once

#include "host/tensor/state/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon {

class ConvertedSource final : public TensorSource {
 public:
  // `shape` is the parameter's. Its elements start at `first_element` of the flattened `from`. If
  // `is_transposed`, `from` stores them as [shape[1], shape[0]].
  ConvertedSource(at::ScalarType dtype,
                  const std::vector<int64_t>& shape,
                  std::shared_ptr<const TensorSource> from,
                  int64_t first_element,
                  bool is_transposed);

  // Errors  those of the underlying source
  void read(int64_t first, const at::Tensor& out) const override;
  void read_piece(const TensorPiece& piece, const at::Tensor& out) const override;

 private:
  std::shared_ptr<const TensorSource> from_;
  int64_t first_;
  bool is_transposed_;
};

}  // namespace tenon
