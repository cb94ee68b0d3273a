// SPDX-License-Identifier: Apache-2.0
//
// What two checkpoints have that is not the same: entry by entry, however the ranks that wrote them
// had shared out what is in them. Not for facts, recipes and plugins, which their index tells.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct EntryDifference {
  std::string name;  // "parameters/values/embed"; "rank 1: run/stop_reason" of what ranks have
  std::string what;  // "3 of 64 elements differ, by at most 0.25"
};

struct CheckpointDifference {
  std::uint64_t num_equal = 0;  // entries
  std::vector<EntryDifference> entries;
};

// Compares to the bit. Tensors whose checksums are those of the other are not read. The time that
// a run has taken is left out: it differs between equal runs.
// Errors  checkpoint.damaged; storage.io
CheckpointDifference compare_checkpoints(const CheckpointReader& a, const CheckpointReader& b);

}  // namespace tenon
