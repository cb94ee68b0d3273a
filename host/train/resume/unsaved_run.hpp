// SPDX-License-Identifier: Apache-2.0
//
// Whether a run folder holds a run that ended before its first checkpoint, so that the same command
// starts it over. run_folder.hpp reopens the folder.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

// True for the folder of a run of this name that was killed, failed or was stopped. Whether the
// folder has checkpoints is not checked.
bool is_unsaved_run(const std::string& path, const std::string& name);

}  // namespace tenon
