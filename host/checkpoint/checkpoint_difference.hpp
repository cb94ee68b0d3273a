// SPDX-License-Identifier: Apache-2.0
//
// Compares the states of two checkpoints entry by entry, independent of how ranks sharded them.
// Metadata, recipes and plugins are not compared; the index records them.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct EntryDifference {
  std::string name;  // "parameters/values/embed"; "rank 1: run/stop_reason" for entries of a rank
  std::string what;  // "3 of 64 elements differ, by at most 0.25"
};

struct CheckpointDifference {
  std::uint64_t num_equal = 0;  // entries
  std::vector<EntryDifference> entries;
};

// Compares bit by bit. Tensors with equal checksums are not read. The elapsed time of a run is
// skipped, because it differs between equal runs.
// Errors  checkpoint.damaged; storage.io
CheckpointDifference compare_checkpoints(const CheckpointReader& a, const CheckpointReader& b);

}  // namespace tenon
