// SPDX-License-Identifier: Apache-2.0
//
// Checks of metric sinks, which write into temporary run folders.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_sink_records(Subject& subject);
CheckResult check_sink_resume(Subject& subject);
CheckResult check_sink_folder(Subject& subject);

}  // namespace tenon
