// SPDX-License-Identifier: Apache-2.0
//
// The content of COMMITTED, as the host's local storage writes and reads it
// (host/checkpoint/commit_record.hpp): "17 step-00000085_epoch-0 0123456789abcdef", with the
// XXH3-64 of everything before it. Earlier releases wrote the number alone.
// Threads  any
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tenon {

inline constexpr uint64_t kMaxSequence = 1'000'000'000'000'000'000;
inline constexpr uint64_t kMaxUncheckedSequence = 1'000'000'000'000;

inline std::string commit_record_text(uint64_t sequence, const std::string& name) {
  const std::string part = std::to_string(sequence) + " " + name + " ";
  char sum[17];
  std::snprintf(sum,
                sizeof(sum),
                "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(part.data(), part.size())));
  return part + sum + "\n";
}

// Returns none if the text is neither a valid record nor one of an earlier release.
inline std::optional<uint64_t> committed_sequence(const std::string& text) {
  uint64_t sequence = 0;
  const auto [digits_end, error] =
      std::from_chars(text.data(), text.data() + text.size(), sequence);
  if (error != std::errc() || sequence == 0 || sequence > kMaxSequence) {
    return std::nullopt;
  }
  // Comparing with what is written also rejects leading zeros and extra characters.
  if (text == std::to_string(sequence) + "\n") {
    return sequence <= kMaxUncheckedSequence ? std::optional(sequence) : std::nullopt;
  }
  const size_t begin = static_cast<size_t>(digits_end - text.data()) + 1;
  const size_t end = text.find(' ', begin);
  return end != std::string::npos &&
                 text == commit_record_text(sequence, text.substr(begin, end - begin))
             ? std::optional(sequence)
             : std::nullopt;
}

}  // namespace tenon
