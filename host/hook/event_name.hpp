// SPDX-License-Identifier: Apache-2.0
//
// The names of events, as recipes, traces and messages write them.
#pragma once

#include <cstdint>

namespace tenon {

// "before_step"; "" for a number that is no event.
const char* event_name(uint32_t event);

}  // namespace tenon
