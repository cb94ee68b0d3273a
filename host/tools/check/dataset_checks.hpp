// SPDX-License-Identifier: Apache-2.0
//
// Checks of the order, the shards and the positions of datasets.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_dataset_reads(Subject& subject);
CheckResult check_dataset_order(Subject& subject);
CheckResult check_dataset_resume(Subject& subject);
CheckResult check_dataset_positions(Subject& subject);
CheckResult check_dataset_batches(Subject& subject);
CheckResult check_dataset_shards(Subject& subject);
CheckResult check_dataset_at_once(Subject& subject);

}  // namespace tenon
