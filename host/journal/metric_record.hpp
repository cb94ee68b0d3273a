// SPDX-License-Identifier: Apache-2.0
//
// The metrics of one interval of steps, or of one evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

struct MetricRecord {
  uint64_t step = 0;
  std::vector<std::pair<std::string, double>> values;
  std::string window = {};  // label of its window; "" if there are no windows

  // Returns the value of a metric; null if the record lacks it.
  const double* find(std::string_view name) const;
};

}  // namespace tenon
