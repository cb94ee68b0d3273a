// SPDX-License-Identifier: Apache-2.0
//
// Reads a checkpoint: the index in the constructor, tensors on request, directly into their
// destination. Each read is verified against its checksum. The number of ranks may differ from that
// of the run that wrote the checkpoint.
// Invariant: corrupt data is never returned; an error names the file and the entry.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_store.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class CheckpointReader {
 public:
  // Errors  storage.io, storage.not_found; checkpoint.damaged, checkpoint.too_new,
  //         checkpoint.foreign if it is not a checkpoint
  CheckpointReader(std::shared_ptr<CheckpointStore> storage, std::string checkpoint);

  const CheckpointIndex& index() const { return index_; }
  // The frozen recipe.
  const std::string& recipe() const { return recipe_; }
  const std::string& checkpoint() const { return checkpoint_; }
  std::string address() const { return storage_->address(checkpoint_); }

  // Returns the state for rank `rank` of `num_ranks`. Its tensors read from this checkpoint during
  // their whole life, and may throw checkpoint.damaged. `dropped` receives the names of entries
  // that belong to ranks of another world size.
  // Errors  checkpoint.damaged, storage.io
  StateTree state(uint32_t rank, uint32_t num_ranks, std::vector<std::string>* dropped) const;

  // Reads all files and verifies them against their checksums.
  // Errors  checkpoint.damaged, with the file and the entry; storage.io
  void verify() const;

 private:
  void check_header(const StoredFile& file) const;
  void check_record() const;

  std::shared_ptr<CheckpointStore> storage_;
  std::string checkpoint_;
  CheckpointIndex index_;
  std::string recipe_;
};

}  // namespace tenon
