// SPDX-License-Identifier: Apache-2.0
#include "host/text/byte_size.hpp"

#include <cstdio>

namespace tenon {

std::string byte_size(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  char text[32];
  if (bytes < (uint64_t{1} << 10)) {
    std::snprintf(text, sizeof(text), "%.0f B", size);
  } else if (bytes < (uint64_t{1} << 20)) {
    std::snprintf(text, sizeof(text), "%.1f KiB", size / (1 << 10));
  } else if (bytes < (uint64_t{1} << 30)) {
    std::snprintf(text, sizeof(text), "%.1f MiB", size / (1 << 20));
  } else {
    std::snprintf(text, sizeof(text), "%.2f GiB", size / (1 << 30));
  }
  return text;
}

}  // namespace tenon
