// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_update.hpp"

#include "host/text/formatted.hpp"

#include <cmath>

namespace tenon {
namespace {

double sum_of_squares(const float* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  return sum;
}

}  // namespace

void RowUpdate::gather(const StepRows& step,
                       size_t dim,
                       double scale,
                       std::optional<double> clip_norm) {
  non_finite.clear();
  ids.clear();
  rows.clear();
  counts.clear();
  grads.clear();
  const size_t n = step.grads.size() / dim;
  grads.reserve(step.grads.size());
  for (size_t i = 0; i < n; ++i) {
    if (step.used[i] == 0) {
      continue;
    }
    const float* const grad = step.grads.data() + i * dim;
    double factor = scale;
    const double squares = sum_of_squares(grad, static_cast<int64_t>(dim)) * scale * scale;
    if (!std::isfinite(squares) && non_finite.empty()) {
      non_finite = formatted("row {}", step.ids.ids()[i]);
    }
    if (clip_norm.has_value() && squares > *clip_norm * *clip_norm) {
      factor *= *clip_norm / std::sqrt(squares);
    }
    ids.push_back(step.ids.ids()[i]);
    rows.push_back(step.rows[i]);
    counts.push_back(step.used[i]);
    const auto by = static_cast<float>(factor);
    for (size_t d = 0; d < dim; ++d) {
      grads.push_back(grad[d] * by);
    }
  }
}

}  // namespace tenon
