// SPDX-License-Identifier: Apache-2.0
//
// Writes a state as a checkpoint: each rank its share, all at once, and one of them the index,
// last. What all ranks have, one of them writes; which one is dealt out by size, so that all write
// about as much. Invariant: a checkpoint exists when its bundle is committed, not before. Threads:
// any; a tree must not change meanwhile.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/checkpoint_index.hpp"
#include "host/tensor/state_tree.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Which rank this is, and which of the ranks that have the same parts of sharded tensors.
struct WriterPlace {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t replica = 0;
  uint32_t num_replicas = 1;
};

// Writes this rank's share of the state into an open bundle.
// Errors   storage.io; checkpoint.bad_tensor for a type that files cannot hold;
//          checkpoint.given_up once `give_up` is true
RankShare write_share(const StateTree& tree,
                      const WriterPlace& place,
                      BundleStorage& storage,
                      const std::string& bundle,
                      const std::atomic<bool>& give_up);

// What stands beside the tensors: names and contents of the files that one rank adds when all
// shares are written. The bundle can be committed then.
std::vector<std::pair<std::string, std::string>> index_files(const CheckpointIndex& index,
                                                             const std::string& frozen_recipe);

// Writes a whole file.  Errors  storage.io
void write_file(const std::string& name,
                const std::string& content,
                BundleStorage& storage,
                const std::string& bundle);

}  // namespace tenon
