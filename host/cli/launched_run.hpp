// SPDX-License-Identifier: Apache-2.0
//
// The implementation of --launch: starts the ranks, waits for them, reports a failure once, and
// restarts the ranks if requested. launch.hpp starts ranks; restart_plan.hpp selects the ranks to
// restart.
// Threads: [main].
#pragma once

#include "host/cli/all_actions.hpp"
#include "host/cli/command_line.hpp"
#include "host/error/exit_code.hpp"
#include "host/recipe/recipe.hpp"

namespace tenon {

// Runs the ranks and returns the exit status of the run. Does not return if a second signal ends
// the launcher.
// Errors  usage.bad_option if --min-ranks is given and the recipe cannot be trained on fewer ranks;
//         distributed.launch_failed
ExitCode run_launched(const CommandLine& line, const Recipe& recipe, const Invocation& invocation);

}  // namespace tenon
