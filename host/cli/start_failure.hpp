// SPDX-License-Identifier: Apache-2.0
//
// What the program does before main(), while libraries are initialized:
// - It reports if memory runs out. Static initializers of libtorch allocate, and an exception there
//   would end the process by SIGABRT without a report.
// - It reports a current folder that was removed, for which libtorch would end the process.
// - It ignores SIGUSR1 (see also early/save_request.c). As the first process of a container, it
// ends
//   by SIGTERM and SIGINT.
// Threads: [main].
#pragma once

namespace tenon {

// Restores the usual reaction to an exception that nobody catches. Call it first in main().
void end_start_failures() noexcept;

}  // namespace tenon
