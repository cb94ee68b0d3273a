// SPDX-License-Identifier: Apache-2.0
//
// Reads a checkpoint: its index at once, tensors when they are asked for, straight to where they
// belong and each against its checksum. Any number of ranks may read what any number has written.
// Invariant: what was read is what was written, or an error names the file and the entry.
// Threads: any.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/checkpoint_index.hpp"
#include "host/tensor/state_tree.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class CheckpointReader {
 public:
  // Errors  storage.io, storage.not_found; checkpoint.damaged, checkpoint.too_new,
  //         checkpoint.foreign for what is no checkpoint
  CheckpointReader(std::shared_ptr<BundleStorage> storage, std::string bundle);

  const CheckpointIndex& index() const { return index_; }
  // As it was frozen.
  const std::string& recipe() const { return recipe_; }
  const std::string& bundle() const { return bundle_; }
  std::string address() const { return storage_->address(bundle_); }

  // The state as one of `world_size` ranks needs it. Its tensors read from this checkpoint as long
  // as they live, and report checkpoint.damaged. `dropped` is given the names of what belonged to
  // ranks that have changed.  Errors  checkpoint.damaged, storage.io
  StateTree state(uint32_t rank, uint32_t world_size, std::vector<std::string>* dropped) const;

  // Reads all that is in the files and holds it against the checksums.
  // Errors  checkpoint.damaged, with the file and the entry; storage.io
  void verify() const;

 private:
  void check_header(const StoredFile& file) const;

  std::shared_ptr<BundleStorage> storage_;
  std::string bundle_;
  CheckpointIndex index_;
  std::string recipe_;
};

}  // namespace tenon
