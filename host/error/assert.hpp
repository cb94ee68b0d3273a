// SPDX-License-Identifier: Apache-2.0
//
// TENON_ASSERT: for bugs of the host alone. User input, files and plugins raise an Error instead.
// It is checked in every build: a wrong invariant must not train on.

#pragma once

namespace tenon {

// Prints "file:line: assertion failed: condition: message" to stderr and aborts.
//
// Threads  [any]
[[noreturn]] void assertion_failed(const char* file,
                                   int line,
                                   const char* condition,
                                   const char* message) noexcept;

}  // namespace tenon

#define TENON_ASSERT(condition, message)                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::tenon::assertion_failed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                       \
  } while (false)
