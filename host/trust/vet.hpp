// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins in a child process first, so that a plugin that crashes or hangs while loading does
// not end the run. vet_cache.hpp stores the verdicts. How a plugin is loaded and tried is the
// caller's (vet_trial.hpp).
// Threads: [main], before the process starts other threads, because the child is a fork.

#pragma once

#include "host/trust/vet_trial.hpp"

#include <chrono>
#include <span>
#include <vector>

namespace tenon {

// Returns a verdict for each plugin, in order. One child tries the plugins one after the other; if
// it dies or hangs, a new child continues.
//
// Errors   run.out_of_resources if a process cannot be created
std::vector<Verdict> vet_plugins(std::span<const VetSubject> plugins,
                                 const VetTrial& trial,
                                 std::chrono::milliseconds timeout);

}  // namespace tenon
