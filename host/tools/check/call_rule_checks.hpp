// SPDX-License-Identifier: Apache-2.0
//
// Checks of the rules of calls: tensor handles, thread roles, and settings of the process. They
// repeat the calls of other checks in the checking mode of calls.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_call_handles(Subject& subject);
CheckResult check_call_roles(Subject& subject);
CheckResult check_call_settings(Subject& subject);

}  // namespace tenon
