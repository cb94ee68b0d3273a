// SPDX-License-Identifier: Apache-2.0
//
// The role of a rank: what it reads, what it counts, which copies of parameters it answers for, and
// with which ranks it shares each of them. All answers follow from the mesh. No other code derives
// them from the number of ranks.
//
//   ranks along                  have
//   tensor, context, pipeline    the same samples
//   context, shard, replicate    different tokens of the run, each once
//   the same and pipeline        numbers to add up: counts, losses and metrics. Of ranks with the
//                                same tokens, the one that computes a number adds it
//   tensor                       parts of blocks, and the same values outside of their regions
//   shard                        the slices of one copy of the parameters
//   context, replicate           copies of the same slice, also on `num_copies` adjacent tensor
//                                ranks
//   pipeline                     different blocks, and parameters
//
// The number of copies on tensor ranks is that of each parameter (ModelParameter::num_copies). The
// gradient of a parameter is the sum over its copies.
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
  kStage,     // ranks that compute the same blocks
  kSamples,   // ranks that read different samples
  kTokens,    // ranks that compute different tokens
  kSlices,    // ranks that hold one copy of the parameters together
  kContext,   // ranks that divide the positions of the same samples
  kTensor,    // ranks that divide the blocks of the same samples and positions
  kSums,      // ranks over which counts, losses and metrics add up
  kPipeline,  // ranks that have the stages of the same samples
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
  // Returns the part of blocks that this rank computes.
  RankIndex tensor() const { return index_in(RankSet::kTensor); }
  // Returns this rank among those that have the stages of a pipeline.
  RankIndex pipeline() const { return index_in(RankSet::kPipeline); }
  // True on the rank that counts the tokens that it shares with other ranks, in sums over all
  // ranks. In sums over RankSet::kTokens, each rank counts its own.
  bool counts_tokens() const { return tensor().index == 0 && pipeline().index == 0; }
  // Same, for the samples that it shares with other ranks.
  bool counts_samples() const { return counts_tokens() && positions().index == 0; }

  // Returns the ranks that hold the same piece of a parameter, ascending: of its slices, or of what
  // is not sharded. `num_copies` divides the number of tensor ranks. The gradients of the copies
  // add up. The first copy counts the piece in sums and hashes over all ranks; all share the work
  // of saving it.
  std::vector<uint32_t> copies_of_slice(uint32_t num_copies) const;
  std::vector<uint32_t> copies_of_whole(uint32_t num_copies) const;
  // Returns the index of this rank among them.
  RankIndex copy_of_slice(uint32_t num_copies) const;
  RankIndex copy_of_whole(uint32_t num_copies) const;
  // Returns the rank that counts the slices that `rank` holds.
  uint32_t first_copy_of(uint32_t rank, uint32_t num_copies) const;

  // Distinguishes the random numbers of this rank from those of ranks that compute other tokens.
  uint64_t random_stream() const { return index_in(RankSet::kTokens).index; }

 private:
  Mesh mesh_;
};

}  // namespace tenon
