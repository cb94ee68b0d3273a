// SPDX-License-Identifier: Apache-2.0
//
// Questions that all ranks answer together.
// Threads: the train thread; all are collective calls.
#pragma once

#include "host/distributed/collectives/collective.hpp"

#include <string>

namespace tenon {

// True on all ranks if `mine` is true on one of them.
bool any_rank(Collective& collective, bool mine);

// The first text that is not empty, in the order of ranks, with its rank in front ("rank 2: ...")
// unless it is rank 0's; "" if all are empty.
std::string first_text(Collective& collective, const std::string& mine);

}  // namespace tenon
