// SPDX-License-Identifier: Apache-2.0
//
// What a plugin did wrong in a service that cannot return an error, such as the release of a handle
// that it had released before. The host reports it when the plugin's call returns.
// Threads: each thread has its own.
#pragma once

namespace tenon {

// A literal; null if there is nothing to report.
extern constinit thread_local const char* service_misuse;

}  // namespace tenon
