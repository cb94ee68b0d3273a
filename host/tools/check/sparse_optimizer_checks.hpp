// SPDX-License-Identifier: Apache-2.0
//
// Checks of sparse optimizers on rows in memory.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_row_update(Subject& subject);
CheckResult check_row_independence(Subject& subject);
CheckResult check_row_resume(Subject& subject);
CheckResult check_row_found_inf(Subject& subject);
CheckResult check_row_non_finite(Subject& subject);

}  // namespace tenon
