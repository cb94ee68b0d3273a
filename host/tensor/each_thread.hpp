// SPDX-License-Identifier: Apache-2.0
//
// The threads on which libtorch runs parallel operators.
#pragma once

namespace tenon {

// Calls `body` once on this thread, and once on each other thread that would run a parallel
// operator called here. Creates these threads if they do not exist.
//
// Errors   none; `body` must not throw
// Threads  any
void on_each_compute_thread(void (*body)());

}  // namespace tenon
