// SPDX-License-Identifier: Apache-2.0
//
// Checks of features on columns of each type that they accept.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_feature_results(Subject& subject);
CheckResult check_feature_repeatable(Subject& subject);
CheckResult check_feature_rows(Subject& subject);
CheckResult check_feature_at_once(Subject& subject);

}  // namespace tenon
