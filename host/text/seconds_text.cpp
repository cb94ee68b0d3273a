// SPDX-License-Identifier: Apache-2.0
#include "host/text/seconds_text.hpp"

#include <cstdio>

namespace tenon {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string seconds_text(std::chrono::nanoseconds duration) {
  return seconds_text(std::chrono::duration<double>(duration).count());
}

}  // namespace tenon
