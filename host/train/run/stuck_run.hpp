// SPDX-License-Identifier: Apache-2.0
//
// Ends the process where a call into a plugin does not return: the call cannot be cancelled, its
// thread cannot be joined, and what it holds is held for ever.
// Invariant: the process ends within kGraceSeconds, even if the log itself is what hangs.
// Threads: of the watchdog.
#pragma once

#include "host/error/error.hpp"
#include "host/plugin/watchdog.hpp"
#include "host/train/run_state/run_state.hpp"

#include <functional>
#include <string>

namespace tenon {

inline constexpr unsigned kGraceSeconds = 10;

// The process ends after so many seconds with this code, and with this text on stderr, if it has
// not ended by then: for those who end it in order, by what may hang.
// Threads  any, once
void end_after_grace(const std::string& text, int code, unsigned seconds);

// `[plugin.stuck] dataset "x" (...): read has not returned for 60 s, in step 5; ...`, and the exit
// code: that of a plugin's fault before the first step, that of a failed run after it.
//
// `conclude` is called first, with the error and the code: it writes the summary, and returns true
// where it has told the error on the terminal. It may be empty. It runs beside threads that go on,
// and must touch nothing of theirs.
[[noreturn]] void end_stuck_run(const StuckCall& call,
                                const RunState& state,
                                const std::function<bool(const Error& error, int code)>& conclude);

}  // namespace tenon
