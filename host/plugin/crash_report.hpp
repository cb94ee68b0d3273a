// SPDX-License-Identifier: Apache-2.0
//
// Last words of a process that a plugin's call ends by a signal during a run: a file that it
// maps was cut (SIGBUS), memory that is not its own, an abort. It says which call it was; the
// signal then ends the process as it would have, with its status and its core dump. Not for
// loading, where a child process crashes in the host's place (vet.hpp). Invariant: what runs in the
// handler allocates nothing and takes no lock.
#pragma once

namespace tenon {

// Installs the handler, for the rest of the process; a signal that somebody else handles already,
// such as a sanitizer, is left to them.
//
// Threads  [main]
void report_crashes();

}  // namespace tenon
