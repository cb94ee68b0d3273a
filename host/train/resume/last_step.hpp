// SPDX-License-Identifier: Apache-2.0
//
// Records the last training step of a run in the file `last_step` of its folder, independent of
// what the run saved and how it ended. Commands that use a checkpoint compare its step with the
// recorded step.
// Invariant: the file survives `kill -9`; a power failure may lose the last updates.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

class LastStepWriter {
 public:
  // Opens no file until the first step is written.
  explicit LastStepWriter(const std::string& run_dir);
  ~LastStepWriter();
  LastStepWriter(const LastStepWriter&) = delete;
  LastStepWriter& operator=(const LastStepWriter&) = delete;

  // Replaces the recorded step. After a failure, logs a warning and stops recording; the run
  // continues.
  void write(uint64_t step);

 private:
  std::string path_;
  int fd_ = -1;
  bool has_failed_ = false;
};

// Returns the recorded step of the run that `path` belongs to: a run folder, its folder of
// checkpoints, or one of its checkpoints or exports. None if no run folder is found, or if no step
// is recorded.
//
// Threads  any
std::optional<uint64_t> last_step_of(const std::string& path);

enum class CheckpointUse { kResume, kEvaluate, kExport };

// Returns a warning if a checkpoint of the run at `path` lacks training, because the run continued
// past it. An export of initial weights gets a warning even if no step was trained. None otherwise.
// `address` names the checkpoint.
//
// Threads  any
std::optional<std::string> missing_training_text(const std::string& path,
                                                 const std::string& address,
                                                 const CheckpointMetadata& metadata,
                                                 CheckpointUse use);

}  // namespace tenon
