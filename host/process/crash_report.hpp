// SPDX-License-Identifier: Apache-2.0
//
// Reports a process that crashes (invalid memory access, abort, truncated mapped file), or that a
// plugin ends by exit(), quick_exit() or _exit(): which plugin, component, function, event and
// step. The report goes to stderr and to a page that another process can read (crash_page.hpp). A
// crash then ends the process with exit status 5, or 4 before the first step; a copy of the process
// dumps the core. Not for loading a plugin for the first time, where a child process crashes
// instead of the host (vet.hpp). Invariants: the handler allocates no memory. It takes no lock,
// except that of the dynamic loader if no call explains the crash. Processes that a plugin forks
// are not reported.
#pragma once

#include "host/error/crash_page.hpp"

#include <cstdint>

namespace tenon {

// Installs the handlers. Skips signals that already have a handler, for example of a sanitizer.
//
// Threads  [main], before a plugin is loaded
void report_crashes();
// Removes the handlers. Exits are no longer reported either.
//
// Threads  [main]
void stop_reporting_crashes();

// Sets the rank that reports name, and lets the report of an exit() run before the destructors of
// all that was loaded until now. Does nothing without report_crashes().
//
// Threads  [main]
void report_crashes_of(uint32_t rank, uint32_t num_ranks);

// The page of this process. Nothing reads it without report_crashes().
CrashPage& crash_page();

// Ends this process by the default action of the signal. The first process of a container is not
// ended by a signal that it does not handle: it ends with the exit status that shells report.
//
// Threads  [any]; signal handlers too
[[noreturn]] void end_by_signal(int signal);

// Ends the process with `code`, as it was meant to end. Flushes stdout and stderr. Runs no
// destructors of plugins and of the host: exit() is reported as the mistake of a plugin.
[[noreturn]] void end_process(int code);

// What _exit() does in this program (exit_symbols.cpp): reports a call that a plugin makes, and
// ends the process with `status` for all others.
//
// Threads  [any]
[[noreturn]] void exit_at_once(int status);
// What exit() does first in this program: reports a call that a plugin makes, and ends the process.
// Returns for all others. Without it, destructors would run while other threads are in plugins.
//
// Threads  [any]
void report_plugin_exit();

}  // namespace tenon
