// SPDX-License-Identifier: Apache-2.0
//
// Checks of the options of components: their schemas, and what `create` does with them.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_schemas(Subject& subject);
CheckResult check_defaults(Subject& subject);
CheckResult check_refused_values(Subject& subject);
CheckResult check_extreme_values(Subject& subject);
CheckResult check_unchecked_options(Subject& subject);

}  // namespace tenon
