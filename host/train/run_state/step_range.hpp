// SPDX-License-Identifier: Apache-2.0
//
// A range of steps of a run, counted from 1. Both ends are included.
#pragma once

#include <cstdint>

namespace tenon {

struct StepRange {
  uint64_t first = 1;
  uint64_t last = 1;

  bool operator==(const StepRange&) const = default;
};

}  // namespace tenon
