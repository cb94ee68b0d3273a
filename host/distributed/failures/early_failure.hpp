// SPDX-License-Identifier: Apache-2.0
//
// Handles a rank that fails before it has connected to the others. It connects to report its error,
// so that no other rank waits for it, and the error is printed once.
// Threads: [main].
#pragma once

#include "host/distributed/collectives/together.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"

namespace tenon {

// Called at most once, before World::join, by a rank that will not continue. The other ranks
// receive the error in their first together(). Returns if no rank can receive it: there is only one
// rank, the error is about connecting, or not all ranks join soon.
// Errors  SharedFailure
void fail_with_others(const RankEnvironment& environment, const Error& error);

// Returns the failure as this rank reports it: rank 0 prints it for all ranks, except if ranks have
// separate terminals.
SharedFailure printed_by(const RankEnvironment& environment, const SharedFailure& failure);

// Records which rank caused the error, for the launcher, which may restart the ranks. Only rank 0
// does so. Called while all ranks are still connected.
void note_lone_failure(World& world, const SharedFailure& failure);

}  // namespace tenon
