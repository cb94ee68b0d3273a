// SPDX-License-Identifier: Apache-2.0
//
// Writes a state as a checkpoint. All ranks write their shares in parallel; then one rank writes
// the index. Replicated entries are assigned to ranks by size, so that all ranks write about the
// same amount. What all ranks of a pipeline have is assigned to those of its first rank.
// Invariant: a checkpoint exists only after its commit.
// Threads: any; a tree must not change while it is written.
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_store.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Writes this rank's share of the state into an open checkpoint.
//
// Errors   storage.io; checkpoint.bad_tensor for a type that files cannot hold;
//          checkpoint.given_up after `give_up` becomes true
RankShare write_share(const StateTree& tree,
                      const RankRole& role,
                      CheckpointStore& storage,
                      const std::string& checkpoint,
                      const std::atomic<bool>& give_up);

// Names and contents of the files that one rank adds after all shares are written: index, recipe
// and checksums. The checkpoint can then be committed.
std::vector<std::pair<std::string, std::string>> index_files(const CheckpointIndex& index,
                                                             const std::string& frozen_recipe);

// Creates, writes and closes a file.
//
// Errors   storage.io
void write_file(const std::string& name,
                const std::string& content,
                CheckpointStore& storage,
                const std::string& checkpoint);

}  // namespace tenon
