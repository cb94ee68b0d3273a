// SPDX-License-Identifier: Apache-2.0
//
// The sequence runner's interface to features: fields that follow from the tokens of a text.
// host/train/generate computes them.
// Threads: the train thread.
#pragma once

#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tenon {

class TextFields {
 public:
  virtual ~TextFields() = default;

  // Returns the fields that a text has besides its token ids.
  virtual const std::vector<FieldInfo>& fields() const = 0;
  // Returns their values for a text, in the same order, on the CPU.
  // Shapes  a sample of each field; [1, T] for a field with an entry per token
  // Errors  errors of the plugins that compute them
  virtual std::vector<at::Tensor> values(const std::vector<int64_t>& ids) = 0;
};

}  // namespace tenon
