// SPDX-License-Identifier: Apache-2.0
//
// The axis of a value that counts positions of a sequence: its name is T.
#pragma once

#include "host/model/graph.hpp"
#include "host/tensor/batch_positions.hpp"

#include <cstdint>
#include <optional>

namespace tenon {

// Returns nothing if the value has no such axis, or any shape.
inline std::optional<int64_t> axis_of_positions(const ModelValue& value) {
  return value.axes.has_value() ? position_axis(*value.axes) : std::nullopt;
}

}  // namespace tenon
