// SPDX-License-Identifier: Apache-2.0
//
// Whether a run folder holds a run that was lost before it had saved anything, so that the same
// command begins it anew. Not for what is done with it: run_folder.hpp. Threads: any.
#pragma once

#include <string>

namespace tenon {

// True for the folder of a run of this name that saves checkpoints, and was killed, has failed or
// was stopped.
// Whether it has any is not looked at.
bool is_unsaved_run(const std::string& path, const std::string& name);

}  // namespace tenon
