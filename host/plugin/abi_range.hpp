// SPDX-License-Identifier: Apache-2.0
//
// Ranges of ABI versions: the versions that this host supports, and those that a plugin states in
// its manifest.

#pragma once

#include <tenon/abi.h>

#include "host/text/formatted.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Minor versions of one major ABI version. Default: empty.
struct AbiRange {
  uint32_t major = 0;
  uint32_t min_minor = 1;
  uint32_t max_minor = 0;  // inclusive; below min_minor if the range is empty

  bool operator==(const AbiRange&) const = default;

  constexpr bool is_empty() const noexcept { return min_minor > max_minor; }
  constexpr bool contains(uint32_t minor) const noexcept {
    return min_minor <= minor && minor <= max_minor;
  }
  constexpr bool intersects(const AbiRange& other) const noexcept {
    return major == other.major &&
           std::max(min_minor, other.min_minor) <= std::min(max_minor, other.max_minor);
  }
  // "0.4", or "1.0..1.3" if the range has several versions; "" if it is empty.
  std::string text(std::string_view joint = "..") const {
    if (is_empty()) {
      return {};
    }
    const std::string min = formatted("{}.{}", major, min_minor);
    return min_minor == max_minor ? min : formatted("{}{}{}.{}", min, joint, major, max_minor);
  }
};

// The oldest minor version of its major version that this host supports. While the major version is
// 0, each minor version changes the ABI.
inline constexpr uint32_t kOldestMinor = TENON_ABI_MAJOR == 0 ? TENON_ABI_MINOR : 0;

inline constexpr AbiRange kHostAbi{
    .major = TENON_ABI_MAJOR, .min_minor = kOldestMinor, .max_minor = TENON_ABI_MINOR};

}  // namespace tenon
