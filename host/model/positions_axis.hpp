// SPDX-License-Identifier: Apache-2.0
//
// The axis of a value that counts positions of a sequence: its name is T.
#pragma once

#include "host/model/graph.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tenon {

// Returns nothing if the value has no such axis, or any shape.
inline std::optional<int64_t> axis_of_positions(const ModelValue& value) {
  if (!value.axes.has_value()) {
    return std::nullopt;
  }
  const auto found = std::ranges::find(*value.axes, "T", &Axis::name);
  return found != value.axes->end() ? std::optional<int64_t>(found - value.axes->begin())
                                    : std::nullopt;
}

}  // namespace tenon
