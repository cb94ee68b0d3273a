// SPDX-License-Identifier: Apache-2.0
//
// Checks of loading a plugin, and of what its entry agrees on with hosts of other releases.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_loads(Subject& subject);
CheckResult check_registers(Subject& subject);
CheckResult check_keeps_process(Subject& subject);
CheckResult check_beside_others(Subject& subject);
CheckResult check_entry_version(Subject& subject);
CheckResult check_newer_host(Subject& subject);
CheckResult check_unknown_ids(Subject& subject);
CheckResult check_absent_services(Subject& subject);

}  // namespace tenon
