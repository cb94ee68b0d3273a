// SPDX-License-Identifier: Apache-2.0
//
// The names of events in recipes, traces and messages.
#pragma once

#include <cstdint>

namespace tenon {

// Returns the name of an event, such as "before_step"; "" if the number is not an event.
const char* event_name(uint32_t event);

}  // namespace tenon
