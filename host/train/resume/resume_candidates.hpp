// SPDX-License-Identifier: Apache-2.0
//
// The checkpoints that a run may resume from, in order of preference. If a checkpoint is corrupt,
// Tenon logs a warning and tries the next checkpoint. It is an error if none is left.
// Invariant: all ranks try the same checkpoint.
// Threads: the train thread. All ranks call each function together.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_store.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/error/error.hpp"

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// True for errors of a single checkpoint: it cannot be read, but another may be valid.
bool is_damage(const Error& error);

enum class CheckpointPart { kIndex, kState };

// Returns the error of a single checkpoint that an exception means: its files are corrupt, or its
// values are out of range or do not fit the run. None if another checkpoint would fail alike: the
// machine lacks memory or threads, a rank is lost, or a plugin fails. While an index is read, lack
// of memory counts as an error of the checkpoint, since only a corrupt index is that large.
std::optional<Error> checkpoint_failure(const std::exception& exception, CheckpointPart part);

// Returns the error with the address of its checkpoint.
Error with_address(const Error& error, const std::string& address);

class ResumeCandidates {
 public:
  // Only rank 0's `checkpoints` count. `accept` may refuse a checkpoint by throwing, which ends the
  // run.
  ResumeCandidates(std::shared_ptr<CheckpointStore> storage,
                   Group& ranks,
                   std::vector<std::string> checkpoints,
                   std::function<void(const CheckpointReader&)> accept = {});

  bool is_empty() const { return num_left_ == 0; }

  // Returns the state of the next checkpoint whose index can be read. Its tensors are read from
  // the checkpoint on use, throughout the life of this object.
  //
  // Errors  checkpoint.none_sound if none is left; the first failure if it is no corruption; what
  //         `accept` throws
  const StateTree& next();
  // Rejects the last checkpoint. `error` is the error on this rank; none if only others failed.
  void reject(const std::optional<Error>& error);
  // The reader of the last checkpoint.
  const CheckpointReader& reader() const { return *reader_; }

 private:
  void warn(const std::string& why) const;

  std::shared_ptr<CheckpointStore> storage_;
  Group& ranks_;
  std::vector<std::string> checkpoints_;
  size_t num_left_;
  size_t num_tried_ = 0;
  std::optional<Error> first_failure_;
  std::function<void(const CheckpointReader&)> accept_;
  std::optional<CheckpointReader> reader_;
  StateTree state_;
};

}  // namespace tenon
