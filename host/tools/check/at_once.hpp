// SPDX-License-Identifier: Apache-2.0
//
// Runs a function by several threads at once, as loaders and storages call a plugin.
// Threads: any; the function is called by new threads.
#pragma once

#include <cstddef>
#include <functional>

namespace tenon {

// Calls body(0) to body(num_threads - 1) at once, each by its own thread.
//
// Errors   what `body` throws, of the first thread that failed
void run_at_once(std::size_t num_threads, const std::function<void(std::size_t)>& body);

}  // namespace tenon
