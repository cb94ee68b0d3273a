// SPDX-License-Identifier: Apache-2.0
//
// A function that receives each logged warning and error, so that a run can report them to
// programs. Invariant: the listener gets a line after the log has written it, as the log shows it:
// without credentials and control characters. Threads: any.
#pragma once

#include <functional>
#include <string_view>

namespace tenon {

enum class LoggedKind { kWarning, kError };

// Called on the thread that logs. Must not throw. Lines that the listener itself logs are not
// passed to it.
using LogListener = std::function<void(LoggedKind kind, std::string_view text)>;

// Replaces the listener; an empty function removes it. Returns once no call of the replaced
// listener is in progress, so its data may then be destroyed. Must not be called from a listener.
void set_log_listener(LogListener listener);

// Passes a line to the listener, if there is one. For the log.
void pass_to_log_listener(LoggedKind kind, std::string_view text);

}  // namespace tenon
