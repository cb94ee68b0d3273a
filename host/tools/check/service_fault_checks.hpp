// SPDX-License-Identifier: Apache-2.0
//
// The check of instances whose host fails: each service call in turn returns an error.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_failing_services(Subject& subject);

}  // namespace tenon
