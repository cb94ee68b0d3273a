// SPDX-License-Identifier: Apache-2.0
//
// Detects run folders of runs that ended before their first checkpoint, so that the same command
// can start the run over. attempt_folder.hpp puts their files aside.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

// True for the folder of a run of this name.
bool is_run_of(const std::string& path, const std::string& name);

// True for the folder of a run of this name that was killed, failed or was stopped. Whether the
// folder has checkpoints is not checked.
bool is_unsaved_run(const std::string& path, const std::string& name);

}  // namespace tenon
