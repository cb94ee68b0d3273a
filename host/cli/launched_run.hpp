// SPDX-License-Identifier: Apache-2.0
//
// --launch, from the command line to the exit status: starts the ranks, waits for them, tells once
// what they failed of, and starts them again where that was asked for. What a start is is
// launch.hpp's, which ranks are started again restart_plan.hpp's.
// Threads: [main].
#pragma once

#include "host/cli/command_line.hpp"
#include "host/error/exit_code.hpp"
#include "host/recipe/recipe.hpp"

#include <string>
#include <vector>

namespace tenon {

// `words` are those of the command line, the program's name first. Does not return where a second
// signal ends the launcher.
// Errors  usage.bad_option if the recipe cannot be trained on fewer ranks, and --min-ranks asks for
//         it; distributed.launch_failed
ExitCode run_launched(const CommandLine& line,
                      const Recipe& recipe,
                      const std::vector<std::string>& words);

}  // namespace tenon
