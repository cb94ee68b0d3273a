// SPDX-License-Identifier: Apache-2.0
//
// Proves to each other rank of a new group that this process has the secret of the run, over the
// connection of both. Gloo accepts any program that connects in time; a stranger who was faster
// than a rank is detected here, before any tensor travels. Threads: as PeerExchange.
#pragma once

#include "host/distributed/collectives/peer_exchange.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <chrono>
#include <string>

namespace tenon {

// Call it on all ranks of the group, before any other exchange. `group` is a name that no other
// group of the run has.
// Errors  distributed.unauthenticated, naming the rank whose connection a stranger has
// Throws std::runtime_error if a rank does not answer before `deadline`.
void prove_peers(PeerExchange& exchange,
                 const RunKey& key,
                 const std::string& group,
                 std::chrono::steady_clock::time_point deadline);

}  // namespace tenon
