// SPDX-License-Identifier: Apache-2.0
//
// Checks of losses on small random inputs for their ports.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_loss_results(Subject& subject);
CheckResult check_loss_gradients(Subject& subject);
CheckResult check_loss_repeatable(Subject& subject);
CheckResult check_loss_additive(Subject& subject);
CheckResult check_loss_views(Subject& subject);
CheckResult check_loss_empty(Subject& subject);

}  // namespace tenon
