// SPDX-License-Identifier: Apache-2.0
//
// Finds times in paths, by a pattern with %Y, %m, %d, %H and %M: "dt=%Y-%m-%d/hr=%H".
// Threads: pure functions, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

struct PathTime {
  int64_t seconds = 0;  // since 1970, UTC
  std::string label;    // "2026-11-20/07:30", down to the finest part of the pattern
  size_t end = 0;       // of the match in the path
};

// None if nothing in the path matches the pattern.
std::optional<PathTime> time_in(const std::string& path, const std::string& pattern);

struct TimeRange {
  int64_t begin = 0;  // seconds since 1970, UTC
  int64_t end = 0;    // exclusive
};
// The range of a label, or of its first parts: "2026-11" is a month. Parts after the year may have
// one digit; the hour may follow a space or T. None for any other text.
std::optional<TimeRange> range_of_label(const std::string& text);

// Seconds from the window of one time to the next; 0 if they differ.
int64_t window_step(const std::string& pattern);

}  // namespace tenon
