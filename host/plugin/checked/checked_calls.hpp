// SPDX-License-Identifier: Apache-2.0
//
// The checking mode of calls into plugins. It finds calls that break the rules of thread roles and
// of handles: services called in a role or on a thread where they may not be, objects of a call
// used after it, handles used after their release or after the call that borrowed them, handles
// released twice, and handles that an instance leaves behind. It also holds the host's own calls
// against the roles. Each report names the component, the function, and where the handle was made.
// Threads: any, once started.
#pragma once

namespace tenon {

// Starts the checking mode, for the rest of the process.
//
// Threads  before the first plugin is loaded
void start_checking_calls();

}  // namespace tenon
