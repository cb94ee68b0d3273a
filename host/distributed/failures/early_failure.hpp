// SPDX-License-Identifier: Apache-2.0
//
// A rank that fails before it has met the others: it meets them to say so, so that none of them
// waits for it, and the error is reported once.
// Threads: [main].
#pragma once

#include "host/distributed/collectives/together.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"

namespace tenon {

// Called at most once, before World::join, by a rank that will not continue. The other ranks
// receive the error in their first together(). Returns if no rank can receive it: there is one
// rank, the error is about meeting the others, or not all of them join soon.
// Errors  SharedFailure
void fail_with_others(const RankEnvironment& environment, const Error& error);

// Leaves word of whose error it was, for who started the ranks and may start them again. One rank
// does so. To be called while all are still connected.
void note_lone_failure(World& world, const SharedFailure& failure);

}  // namespace tenon
