// SPDX-License-Identifier: Apache-2.0
#include "host/journal/metric_record.hpp"

#include <algorithm>

namespace tenon {

const double* MetricRecord::find(std::string_view name) const {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
  return found != values.end() ? &found->second : nullptr;
}

}  // namespace tenon
