// SPDX-License-Identifier: Apache-2.0
//
// Checks of the life of instances: creation, destruction and saved state.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_many_instances(Subject& subject);
CheckResult check_two_instances(Subject& subject);
CheckResult check_shutdown(Subject& subject);
CheckResult check_state_round_trip(Subject& subject);
CheckResult check_foreign_state(Subject& subject);

}  // namespace tenon
