// SPDX-License-Identifier: Apache-2.0
//
// One axis of a field, value or port, for the host. Needs no libtorch.

#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// Equal names mean equal sizes within one batch. "B" counts samples, "T" positions.
struct Axis {
  std::string name;   // empty if the axis has no name
  int64_t size = -1;  // -1: known only at run time

  bool operator==(const Axis&) const = default;
};

}  // namespace tenon
