// SPDX-License-Identifier: Apache-2.0
//
// The number of a journal entry, and the stamp that every entry has.
#pragma once

#include "host/text/formatted.hpp"

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace tenon {

// Version of the entries. Increased if an entry or a member of it changes its meaning.
inline constexpr uint32_t kJournalVersion = 1;

// The number of an entry of one rank. A run folder never uses a number again: each start of the run
// is an attempt of its own (attempt_number.hpp), and the entries of an attempt are counted.
struct JournalNumber {
  uint64_t attempt = 0;  // from 1
  uint64_t n = 0;        // from 1 in each attempt; 0: before the first entry of the attempt

  auto operator<=>(const JournalNumber&) const = default;

  // "2.17": the 17th entry of attempt 2.
  std::string text() const { return formatted("{}.{}", attempt, n); }
};

struct Stamp {
  uint32_t version = kJournalVersion;
  uint32_t rank = 0;
  JournalNumber number;
  uint64_t step = 0;  // the last step that began; 0 before the first step of the run
  std::chrono::system_clock::time_point time;
};

}  // namespace tenon
