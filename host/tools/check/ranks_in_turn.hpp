// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a group that are threads of this process and take turns: one runs until it needs the
// tensors of another, or ends. So code that is not made for several threads is never called at the
// same time. Ranks may call it within the calls of others, so each rank needs separate instances.
// Threads: the caller waits; the first error of a rank ends the others at their next exchange.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace tenon {

// Calls `body` once for each of `size` ranks. Returns "", or where the ranks made different calls:
// `rank 0 sends "keys of attention", rank 1 ends`. A run would wait there forever. Groups do not
// send to single ranks.
// Errors  the first error of `body`, if the ranks made the same calls
std::string run_ranks_in_turn(uint32_t size, const std::function<void(Group& ranks)>& body);

}  // namespace tenon
