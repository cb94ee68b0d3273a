// SPDX-License-Identifier: Apache-2.0
//
// A parameter as a part of a tensor that is kept elsewhere: rows of it, perhaps transposed, in the
// type that the run keeps the parameter in.
// Threads: any, several at once, as what it reads from.
#pragma once

#include "host/tensor/state/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenon {

class ConvertedSource final : public TensorSource {
 public:
  // `shape` is the parameter's; its elements begin at `first_element` of the flattened `from`,
  // which has them as [shape[1], shape[0]] where it is transposed.
  ConvertedSource(at::ScalarType dtype,
                  const std::vector<int64_t>& shape,
                  std::shared_ptr<const TensorSource> from,
                  int64_t first_element,
                  bool is_transposed);

  // Errors  those of what it reads from
  void read(int64_t first, const at::Tensor& out) const override;

 private:
  std::shared_ptr<const TensorSource> from_;
  int64_t first_;
  bool is_transposed_;
};

}  // namespace tenon
