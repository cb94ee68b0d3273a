// SPDX-License-Identifier: Apache-2.0
//
// The file `last_checkpoint` of a run folder: the address of the run's newest checkpoint. If a
// later start finds no checkpoint, the file distinguishes a run whose checkpoints are missing, for
// example because a file system is not mounted, from a run that was lost before its first one.
// Invariant: the file is written after the commit, and survives power loss. If a crash prevents the
// write, the next start that finds the checkpoint repeats it.
// Threads: any, one writer at a time.
#pragma once

#include <optional>
#include <string>

namespace tenon {

// Records a committed checkpoint. Logs a warning if the file cannot be written: the checkpoint is
// valid without it.
void write_last_checkpoint(const std::string& run_dir, const std::string& address);

// Returns the address of the newest checkpoint that the run in this folder has recorded. Null: none
// is recorded.
std::optional<std::string> last_checkpoint_of(const std::string& run_dir);

}  // namespace tenon
