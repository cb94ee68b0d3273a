// SPDX-License-Identifier: Apache-2.0
//
// Reports the call into a plugin that crashes the process during a run: a truncated mapped file
// (SIGBUS), an invalid memory access, an abort. The signal then ends the process as usual, with its
// exit status and core dump. Not for loading, where a child process crashes instead of the host
// (vet.hpp).
// Invariant: the handler allocates no memory and takes no lock.
#pragma once

namespace tenon {

// Installs the handler for the rest of the process. Skips signals that already have a handler, for
// example of a sanitizer.
//
// Threads  [main]
void report_crashes();

}  // namespace tenon
