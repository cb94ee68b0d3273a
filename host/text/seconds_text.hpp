// SPDX-License-Identifier: Apache-2.0
//
// How long ranks have waited, as messages say it.
#pragma once

#include <chrono>
#include <string>

namespace tenon {

// "2.5 s", "40 s".
std::string seconds_text(double seconds);
std::string seconds_text(std::chrono::nanoseconds duration);

}  // namespace tenon
