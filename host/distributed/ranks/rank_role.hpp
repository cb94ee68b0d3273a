// SPDX-License-Identifier: Apache-2.0
//
// The role of a rank: what it reads, what it counts, which copies of parameters it answers for, and
// with which ranks it shares each of them. All answers follow from the mesh. No other code derives
// them from the number of ranks.
//
//   ranks along                  have
//   tensor, context, pipeline    the same samples
//   context, shard, replicate    different tokens of the run, each once: counts, losses, metrics
//   and
//                                gradients add up over them
//   shard                        the slices of one copy of the parameters
//   tensor, context, replicate   copies of the same slice
//
// Threads: any; a role does not change.
#pragma once

#include "host/distributed/ranks/mesh.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

// A rank's index among `count` ranks that divide something, or hold copies of it.
struct RankIndex {
  uint32_t index = 0;
  uint32_t count = 1;
  bool operator==(const RankIndex&) const = default;
};

// Sets of ranks that contain this rank.
enum class RankSet {
  kAll,       // all ranks of the run
  kSamples,   // ranks that read different samples
  kTokens,    // ranks that compute different tokens
  kSlices,    // ranks that hold one copy of the parameters together
  kReplicas,  // ranks whose gradients of the same slice add up
  kContext,   // ranks that divide the positions of the same samples
};

class RankRole {
 public:
  // The only rank of a run.
  RankRole() = default;
  explicit RankRole(Mesh mesh) : mesh_(std::move(mesh)) {}

  const Mesh& mesh() const { return mesh_; }

  // The number of this rank among all ranks, for names of files and for reports.
  uint32_t rank() const { return mesh_.rank(); }
  uint32_t num_ranks() const { return mesh_.world_size(); }
  bool is_alone() const { return num_ranks() == 1; }
  // True on the rank that writes what a run has once: the summary, records, lines for people.
  bool is_first() const { return rank() == 0; }

  // Returns the ranks of a set, ascending.
  std::vector<uint32_t> ranks_of(RankSet set) const;
  // Returns the index of this rank in a set.
  RankIndex index_in(RankSet set) const;

  // Returns the share of each batch that this rank reads: its index among the data-parallel ranks.
  RankIndex samples() const { return index_in(RankSet::kSamples); }
  // Returns the part of the positions of each sample that this rank computes.
  RankIndex positions() const { return index_in(RankSet::kContext); }
  // True on the rank that counts the samples that it shares with other ranks.
  bool counts_samples() const { return positions().index == 0; }

  // Returns the index of this rank among those that hold the same piece of a block's state: a
  // slice, or what is not sharded. The rank with index 0 counts the piece in sums and hashes over
  // all ranks. The copies share the work of saving it.
  RankIndex copy_of_slice() const;
  RankIndex copy_of_whole() const;
  // Returns the rank that counts the slices that `rank` holds.
  uint32_t first_copy_of(uint32_t rank) const;

  // Distinguishes the random numbers of this rank from those of ranks that compute other tokens.
  uint64_t random_stream() const { return index_in(RankSet::kTokens).index; }

 private:
  Mesh mesh_;
};

}  // namespace tenon
