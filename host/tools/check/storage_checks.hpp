// SPDX-License-Identifier: Apache-2.0
//
// Checks of storages of checkpoints, in places that no run uses.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_storage_round_trip(Subject& subject);
CheckResult check_storage_commit(Subject& subject);
CheckResult check_storage_errors(Subject& subject);
CheckResult check_storage_at_once(Subject& subject);

}  // namespace tenon
