// SPDX-License-Identifier: Apache-2.0
//
// The rows of a table that an optimizer updates in a step, in contiguous arrays.
// Threads: one at a time.
#pragma once

#include "host/embedding/step_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct RowUpdate {
  std::vector<int64_t> ids;
  std::vector<int64_t> rows;
  std::vector<int64_t> counts;  // entries that contributed a gradient
  std::vector<float> grads;     // [ids, dim]
  std::string non_finite;       // "row 42" if the gradient of that row is the first non-finite one

  // Collects the rows that have a gradient, and multiplies their gradients by `scale`. Then scales
  // gradients with a norm above `clip_norm` down to this norm.
  void gather(const StepRows& step, size_t dim, double scale, std::optional<double> clip_norm);
};

}  // namespace tenon
