// SPDX-License-Identifier: Apache-2.0
//
// Says what is wrong with a block whose results depend on the ranks that divide it.
// Source: docs/decisions/0089-collectives-in-blocks.md, the table of reports.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/divided_comparison.hpp"

#include <string>

namespace tenon {

// Returns what differs, by which numbers, and how to correct it: `output "y" differs if 2 ranks
// divide it (rank 0 has 0.5 at [0, 2], expected 0.25); ...`. "" if nothing differs. Runs the block
// again to find the cause. The block must not have failed.
std::string mistake_of(DividedComparison& comparison);

// Returns why the ranks cannot run the block, with the sizes of its split parameters. The block
// must have failed.
std::string failure_of(const DividedComparison& comparison);

}  // namespace tenon
