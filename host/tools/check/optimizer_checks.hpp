// SPDX-License-Identifier: Apache-2.0
//
// Checks of dense optimizers on small random parameters.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_optimizer_update(Subject& subject);
CheckResult check_optimizer_resume(Subject& subject);
CheckResult check_found_inf(Subject& subject);
CheckResult check_evaluation_values(Subject& subject);
CheckResult check_optimizer_pieces(Subject& subject);

}  // namespace tenon
