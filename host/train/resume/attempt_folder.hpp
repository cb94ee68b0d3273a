// SPDX-License-Identifier: Apache-2.0
//
// Keeps the files of an attempt to run that was lost, when the same run starts over in its folder.
// Invariant: nothing is removed or overwritten.
// Threads: [main], while the run folder is locked.
#pragma once

#include <string>

namespace tenon {

// Moves the files that a new start would overwrite or append to into the new folder attempt-N of
// the run folder, N = 1, 2, ...: logs, error records, summary, profile, last_step, last_checkpoint,
// and the files and folders below the run folder that options of sinks and hooks in recipe.json
// name. Copies recipe.json, so that the folder stays a run folder if the process ends now. All
// other files stay, such as checkpoints, exports and files that Tenon did not write.
//
// Returns the path of attempt-N; "" if there was nothing to move.
//
// Errors  run.dir_unwritable
std::string put_attempt_aside(const std::string& run_dir);

}  // namespace tenon
