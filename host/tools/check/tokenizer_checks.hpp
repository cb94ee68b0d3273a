// SPDX-License-Identifier: Apache-2.0
//
// Checks of tokenizers on short texts.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_token_round_trip(Subject& subject);
CheckResult check_token_ids(Subject& subject);
CheckResult check_foreign_ids(Subject& subject);

}  // namespace tenon
