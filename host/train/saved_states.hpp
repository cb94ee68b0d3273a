// SPDX-License-Identifier: Apache-2.0
//
// The checkpoints that a run may go on from, the one to prefer first. Where one turns out to be
// damaged, the next is tried, with a warning; where none is left, or only one was asked for, that
// is an error. Invariant: all ranks try the same one. Threads: the train thread. All functions are
// for all ranks at once.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/distributed/collective.hpp"
#include "host/error/error.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// True for errors that say that a checkpoint cannot be read: another one may do.
bool is_damage(const Error& error);

class SavedStates {
 public:
  // `bundles` are those of rank 0. `accept` may refuse one by throwing: then the run ends.
  SavedStates(std::shared_ptr<BundleStorage> storage,
              Collective& collective,
              std::vector<std::string> bundles,
              std::function<void(const CheckpointReader&)> accept = {});

  bool is_empty() const { return num_left_ == 0; }

  // The state of the next checkpoint whose index can be read. It reads from there as long as this
  // lives.
  // Errors  checkpoint.none_sound where none is left; what `accept` throws
  const StateTree& next();
  // The last one cannot be gone on with: `error` is of this rank, if it has one.
  void reject(const std::optional<Error>& error);
  // Of the last one.
  const CheckpointReader& reader() const { return *reader_; }

 private:
  void warn(const std::string& why) const;

  std::shared_ptr<BundleStorage> storage_;
  Collective& collective_;
  std::vector<std::string> bundles_;
  size_t num_left_;
  size_t num_tried_ = 0;
  std::string first_failure_;
  std::function<void(const CheckpointReader&)> accept_;
  std::optional<CheckpointReader> reader_;
  StateTree state_;
};

}  // namespace tenon
