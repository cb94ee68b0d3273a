// SPDX-License-Identifier: Apache-2.0
//
// The checkpoints, or the exports, of a run that retention counts and may remove. Each is read
// once. Threads: one at a time.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/retention.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class KeptCheckpoints {
 public:
  // Reads what retention needs to know. Returns none if the run has not saved it under this name.
  using Read = std::function<std::optional<KeptCheckpoint>(const std::string& name)>;

  // `kind` is "checkpoint" or "export", for messages.
  KeptCheckpoints(std::string kind, Read read);

  // Returns those that the run has saved, in the order of their commits. Logs each that is excluded
  // when it is first seen: unreadable ones as a warning.
  //
  // Errors  storage.io
  std::vector<KeptCheckpoint> list(CheckpointStore& storage);
  // Forgets one, because it may have changed: the next list() reads it again.
  void forget(const std::string& name) { known_.erase(name); }
  // Removes checkpoints. Logs a warning for each that cannot be removed.
  void remove(CheckpointStore& storage, const std::vector<std::string>& names);

 private:
  const std::string kind_;
  const Read read_;
  std::map<std::string, std::optional<KeptCheckpoint>> known_;  // none: neither counted nor removed
};

}  // namespace tenon
