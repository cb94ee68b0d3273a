// SPDX-License-Identifier: Apache-2.0
//
// Decisions that all ranks make together.
// Threads: the train thread; all are collective calls.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <string>

namespace tenon {

// Returns true on all ranks if `mine` is true on any rank.
bool any_rank(Group& ranks, bool mine);

// Returns the first non-empty text in the order of ranks, with the prefix "rank 2: " and so on
// unless it is from rank 0; "" if all are empty.
std::string first_text(Group& ranks, const std::string& mine);

}  // namespace tenon
