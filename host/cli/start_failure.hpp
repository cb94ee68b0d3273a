// SPDX-License-Identifier: Apache-2.0
//
// The error of a program that runs out of memory before main(): static initializers of libtorch
// allocate, and an exception there would end the process by SIGABRT without a report.
// Threads: [main].
#pragma once

namespace tenon {

// Restores the usual reaction to an exception that nobody catches. Call it first in main().
void end_start_failures() noexcept;

}  // namespace tenon
