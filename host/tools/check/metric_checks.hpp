// SPDX-License-Identifier: Apache-2.0
//
// Checks of metrics on small random inputs for their ports.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_metric_values(Subject& subject);
CheckResult check_metric_merge(Subject& subject);
CheckResult check_metric_state(Subject& subject);
CheckResult check_metric_views(Subject& subject);
CheckResult check_metric_empty(Subject& subject);

}  // namespace tenon
