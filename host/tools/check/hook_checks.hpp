// SPDX-License-Identifier: Apache-2.0
//
// Checks of hooks in an imagined run.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_hook_events(Subject& subject);
CheckResult check_hook_writes(Subject& subject);
CheckResult check_hook_state(Subject& subject);

}  // namespace tenon
