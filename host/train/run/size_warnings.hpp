// SPDX-License-Identifier: Apache-2.0
//
// Warns of sizes that are allowed and rarely meant, before a run starts.
// Threads: [main].
#pragma once

namespace tenon {

struct RunPlan;

// Logs on rank 0: a step that is larger than the data, a warmup that does not end, a step that
// grows with the number of ranks.
void warn_of_sizes(const RunPlan& plan);

}  // namespace tenon
