// SPDX-License-Identifier: Apache-2.0
//
// Ends the process of a run if a call into a plugin does not return. Such a call cannot be
// canceled, its thread cannot be joined, and its locks and memory are never released. Invariant:
// the process ends within kGraceSeconds, even if writing to the log hangs. Threads: the watchdog's.
#pragma once

#include "host/error/error.hpp"
#include "host/plugin/watchdog.hpp"
#include "host/process/process.hpp"
#include "host/train/run_state/published_state.hpp"

#include <functional>

namespace tenon {

inline constexpr unsigned kGraceSeconds = 10;

// Ends the process with the error
// `[plugin.stuck] dataset "x" (...): read has not returned for 60 s, in step 5; ...`. Before the
// first step, the exit code is that of a plugin error; later, that of a failed run.
//
// `conclude` is called first, with the error and the code. It writes the summary, and returns true
// if it printed the error on the terminal. It may be empty. Other threads are still running, and
// `conclude` must not touch their data.
[[noreturn]] void end_stuck_run(Process& process,
                                const StuckCall& call,
                                const PublishedState& published,
                                const std::function<bool(const Error& error, int code)>& conclude);

}  // namespace tenon
