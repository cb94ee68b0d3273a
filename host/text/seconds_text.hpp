// SPDX-License-Identifier: Apache-2.0
//
// Formats durations for messages about waiting ranks.
#pragma once

#include <chrono>
#include <string>

namespace tenon {

// Returns "2.5 s", "40 s".
std::string seconds_text(double seconds);
std::string seconds_text(std::chrono::nanoseconds duration);

}  // namespace tenon
