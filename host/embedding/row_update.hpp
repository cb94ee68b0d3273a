// SPDX-License-Identifier: Apache-2.0
//
// The rows of a table that an optimizer updates in a step, side by side.
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
  std::vector<int64_t> counts;  // entries that gave a gradient
  std::vector<float> grads;     // [ids, dim]
  std::string non_finite;       // "row 42" if the gradient of that row is the first non-finite one

  // Takes the rows with a gradient, multiplied by `scale`. A gradient whose norm is above
  // `clip_norm` is scaled down to that norm.
  void gather(const StepRows& step, size_t dim, double scale, std::optional<double> clip_norm);
};

}  // namespace tenon
