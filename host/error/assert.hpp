// SPDX-License-Identifier: Apache-2.0
//
// TENON_ASSERT, for bugs of the host only. Errors in user input, files and plugins throw an Error
// instead. Checked in every build, so that training never continues with a broken invariant.

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
