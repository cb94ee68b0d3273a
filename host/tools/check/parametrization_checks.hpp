// SPDX-License-Identifier: Apache-2.0
//
// Checks of parametrizations: adapters and stored weights of one matrix, or of one vector if they
// refuse matrices.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_started_value(Subject& subject);
CheckResult check_effective_repeatable(Subject& subject);
CheckResult check_effective_gradients(Subject& subject);
CheckResult check_effective_product(Subject& subject);

}  // namespace tenon
