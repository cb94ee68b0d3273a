// SPDX-License-Identifier: Apache-2.0
//
// Runs checks of a plugin, each that runs code of the plugin in its own child process with a time
// limit. A crash, a hang or an exit() there is a failed check.
// Threads: [main], before the process starts other threads (watched_child.hpp).
#pragma once

#include "host/tools/check/check.hpp"
#include "host/tools/check/subject.hpp"

#include <functional>
#include <span>
#include <vector>

namespace tenon {

// Runs the checks in order, and those that they need. Calls `on_result` after each of `checks`.
//
// Errors   run.out_of_resources if a process cannot be created
std::vector<CheckedRule> run_checks(const CheckRequest& request,
                                    const PluginInfo& info,
                                    std::span<const Check* const> checks,
                                    const std::function<void(const CheckedRule&)>& on_result);

}  // namespace tenon
