// SPDX-License-Identifier: Apache-2.0
//
// Catch2, whichever of 2.13 and 3 is installed, with the few names that differ given one spelling.
#pragma once

#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define TENON_CATCH_VERSION 3
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#define TENON_CATCH_VERSION 2
#endif

namespace tenon {

// Matches a string that contains `text`: CHECK_THAT(message, contains_text("line 3")).
inline auto contains_text(const std::string& text) {
#if TENON_CATCH_VERSION >= 3
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

}  // namespace tenon

// Ends a test case that cannot run here, and says why: TENON_SKIP("no GPU was found").
#if TENON_CATCH_VERSION >= 3
#define TENON_SKIP(reason) SKIP(reason)
#else
#define TENON_SKIP(reason)       \
  do {                           \
    WARN("skipped: " << reason); \
    return;                      \
  } while (false)
#endif
