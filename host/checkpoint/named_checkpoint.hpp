// SPDX-License-Identifier: Apache-2.0
//
// Finds checkpoints by a path of the local file system, as users specify it.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct NamedCheckpoint {
  std::shared_ptr<CheckpointStore> storage;
  std::string checkpoint;
};

struct NamedCheckpoints {
  std::shared_ptr<CheckpointStore> storage;
  std::string root;                        // the folder of the checkpoints
  std::vector<std::string> checkpoints;    // in the order of CheckpointOrder; at least one
  std::vector<std::string> warnings = {};  // of CheckpointOrder, for the log of one rank
};

// Finds the checkpoints of a run folder, of its folder "checkpoints", or of any other folder of
// checkpoints; otherwise the checkpoint at `path` itself.
// Errors  as find_checkpoint
NamedCheckpoints find_checkpoints(const std::string& path);

// Finds the newest checkpoint of a run folder or of its folder "checkpoints"; otherwise the
// checkpoint at `path` itself, also under another name than it was committed. Does not check that
// the checkpoint is valid. Logs the warnings.
// Errors  storage.not_found with a suggestion, if `path` has no committed checkpoint;
//         storage.bad_name if the folder's name is not valid
NamedCheckpoint find_checkpoint(const std::string& path);

}  // namespace tenon
