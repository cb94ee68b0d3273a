// SPDX-License-Identifier: Apache-2.0
#include "path_time.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tenon {
namespace {

struct TimeOfPath {
  std::array<int, 5> parts = {1970, 1, 1, 0, 0};  // year, month, day, hour, minute
  int finest = -1;                                // index of the finest part in the pattern
  size_t end = 0;                                 // end of the match in the text
};

constexpr std::array<char, 5> kTimeLetters = {'Y', 'm', 'd', 'H', 'M'};

// Matches `pattern` at text[at]; none if it does not match.
std::optional<TimeOfPath> match_at(const std::string& text, size_t at, const std::string& pattern) {
  TimeOfPath out;
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (pattern[p] != '%' || p + 1 == pattern.size()) {
      if (at >= text.size() || text[at] != pattern[p]) {
        return std::nullopt;
      }
      ++at;
      continue;
    }
    const auto letter = static_cast<size_t>(
        std::find(kTimeLetters.begin(), kTimeLetters.end(), pattern[++p]) - kTimeLetters.begin());
    if (letter == kTimeLetters.size()) {
      return std::nullopt;
    }
    // Four digits of a year. Other parts may have one digit, as Spark writes them, unless digits of
    // the next part follow.
    const auto is_digit = [&](size_t i) {
      return i < text.size() && text[i] >= '0' && text[i] <= '9';
    };
    const bool may_be_short = letter > 0 && (p + 1 == pattern.size() || pattern[p + 1] != '%');
    const size_t most = letter == 0 ? 4 : 2;
    size_t digits = 0;
    int value = 0;
    for (; digits < most && is_digit(at); ++digits) {
      value = value * 10 + (text[at++] - '0');
    }
    if (digits < most && !(may_be_short && digits == 1)) {
      return std::nullopt;
    }
    out.parts[letter] = value;
    out.finest = std::max(out.finest, static_cast<int>(letter));
  }
  out.end = at;
  return out;
}

// Days since 1970-01-01 of a date in the Gregorian calendar.
//
// Source   Howard Hinnant, chrono-Compatible Low-Level Date Algorithms (2013), days_from_civil
int64_t days_of(int year, int month, int day) {
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t year_of_era = y - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

// Seconds since 1970 of year, month, day, hour and minute, UTC.
int64_t seconds_of(const std::array<int, 5>& parts) {
  const auto& [year, month, day, hour, minute] = parts;
  return (days_of(year, month, day) * 24 + hour) * 3600 + minute * 60;
}

bool is_time(const TimeOfPath& time) {
  const auto [year, month, day, hour, minute] = time.parts;
  constexpr std::array<int, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month >= 1 && month <= 12 && day >= 1 && day <= kDays[static_cast<size_t>(month - 1)] &&
         !(month == 2 && day == 29 && !is_leap) && hour <= 23 && minute <= 59;
}

// "2026-11-20/07:30", down to the finest part of the pattern.
std::string label_of(const TimeOfPath& time) {
  const auto& [year, month, day, hour, minute] = time.parts;
  char text[80];
  switch (time.finest) {
    case 0:
      std::snprintf(text, sizeof(text), "%04d", year);
      break;
    case 1:
      std::snprintf(text, sizeof(text), "%04d-%02d", year, month);
      break;
    case 2:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month, day);
      break;
    case 3:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d/%02d", year, month, day, hour);
      break;
    default:
      std::snprintf(text, sizeof(text), "%04d-%02d-%02d/%02d:%02d", year, month, day, hour, minute);
  }
  return text;
}

}  // namespace

// Takes the last match: dates in parent folders may mean something else.
std::optional<PathTime> time_in(const std::string& path, const std::string& pattern) {
  for (size_t at = path.size(); at-- > 0;) {
    const std::optional<TimeOfPath> time = match_at(path, at, pattern);
    if (time && is_time(*time)) {
      return PathTime{
          .seconds = seconds_of(time->parts), .label = label_of(*time), .end = time->end};
    }
  }
  return std::nullopt;
}

std::optional<TimeRange> range_of_label(const std::string& text) {
  std::string label = text;
  std::replace_if(
      label.begin(), label.end(), [](char c) { return c == ' ' || c == 'T'; }, '/');
  for (const char* const pattern : {"%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d/%H", "%Y-%m-%d/%H:%M"}) {
    const std::optional<TimeOfPath> time = match_at(label, 0, pattern);
    if (!time || time->end != label.size() || !is_time(*time)) {
      continue;
    }
    const int64_t begin = seconds_of(time->parts);
    std::array<int, 5> next = time->parts;
    switch (time->finest) {
      case 0:
        ++next[0];
        return TimeRange{begin, seconds_of(next)};
      case 1:
        next[0] += next[1] / 12;
        next[1] = next[1] % 12 + 1;
        return TimeRange{begin, seconds_of(next)};
      default:
        return TimeRange{begin,
                         begin + (time->finest == 2   ? 86400
                                  : time->finest == 3 ? 3600
                                                      : 60)};
    }
  }
  return std::nullopt;
}

int64_t window_step(const std::string& pattern) {
  const auto has = [&](const char* part) { return pattern.find(part) != std::string::npos; };
  return has("%M") || !has("%d") ? 0 : has("%H") ? 3600 : 86400;
}

}  // namespace tenon
