// SPDX-License-Identifier: Apache-2.0
//
// Checks of learning rate schedules.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_factors(Subject& subject);
CheckResult check_pure_factors(Subject& subject);

}  // namespace tenon
