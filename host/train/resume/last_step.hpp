// SPDX-License-Identifier: Apache-2.0
//
// The last training step of a run, in the file `last_step` of its folder: how far the run trained,
// whatever it saved and however it ended. Commands that take a checkpoint compare the two.
// Invariant: the file survives `kill -9`; a loss of power may cost its last lines.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

class LastStepWriter {
 public:
  // Opens nothing until the first step is written.
  explicit LastStepWriter(const std::string& run_dir);
  ~LastStepWriter();
  LastStepWriter(const LastStepWriter&) = delete;
  LastStepWriter& operator=(const LastStepWriter&) = delete;

  // Replaces the recorded step. A failure costs a warning and ends the record, not the run.
  void write(uint64_t step);

 private:
  std::string path_;
  int fd_ = -1;
  bool has_failed_ = false;
};

// The recorded step of the run that `path` belongs to: a run folder, its folder of checkpoints, or
// one of its checkpoints or exports. None if no run folder is found, or none is recorded.
//
// Threads  any
std::optional<uint64_t> last_step_of(const std::string& path);

enum class CheckpointUse { kResume, kEvaluate, kExport };

// The warning for a checkpoint of the run at `path` that lacks training: the run trained on past
// it. An export of initial weights gets a warning even if no step was trained. None otherwise.
// `address` names the checkpoint.
//
// Threads  any
std::optional<std::string> missing_training_text(const std::string& path,
                                                 const std::string& address,
                                                 const CheckpointMetadata& metadata,
                                                 CheckpointUse use);

}  // namespace tenon
