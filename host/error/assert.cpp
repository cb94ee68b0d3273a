// SPDX-License-Identifier: Apache-2.0

#include "host/error/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace tenon {

void assertion_failed(const char* file,
                      int line,
                      const char* condition,
                      const char* message) noexcept {
  std::fprintf(stderr,
               "%s:%d: assertion failed: %s: %s\nThis is a bug of the host; please report it.\n",
               file,
               line,
               condition,
               message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tenon
