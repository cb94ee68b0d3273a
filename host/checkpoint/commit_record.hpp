// SPDX-License-Identifier: Apache-2.0
//
// The content of COMMITTED, the file that commits a checkpoint: one line with the position in the
// order of commits, the name of the checkpoint, and the XXH3-64 of everything before it.
//
//   17 step-00000085_epoch-0 0123456789abcdef
//   17                                           earlier releases: no name, no checksum
//
// Invariant: a record with a checksum never reads as a record of an earlier release, even if a bit
// is flipped or its end is lost.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

// Positions in the order of commits are in [1, kMaxSequence], and without a checksum in
// [1, kMaxUncheckedSequence]. No run commits that often: larger numbers are corrupt. The number
// after an unchecked one is therefore always valid, and no number wraps.
inline constexpr uint64_t kMaxSequence = 1'000'000'000'000'000'000;
inline constexpr uint64_t kMaxUncheckedSequence = 1'000'000'000'000;

struct CommitRecord {
  uint64_t sequence = 0;
  // The name under which the checkpoint was committed. A copy with another name keeps it. Empty in
  // records of earlier releases.
  std::string name = {};

  bool has_checksum() const { return !name.empty(); }
};

// The line, with its line break. `sequence` is in [1, kMaxSequence]; `name` is a checkpoint name.
std::string commit_record_text(uint64_t sequence, const std::string& name);

// Returns none if the text is neither a valid record nor one of an earlier release.
std::optional<CommitRecord> commit_record_of(std::string_view text);

}  // namespace tenon
