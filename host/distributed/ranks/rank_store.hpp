// SPDX-License-Identifier: Apache-2.0
//
// The store of the ranks, as the host opens it: held by a key server (key_server.hpp) of rank 0 or
// of the launcher, or by a torchrun agent. The agent's store is open to every user, so its values
// are sealed (sealed_store.hpp). docs/decisions/0051-the-store-of-the-ranks.md has the reasons.
#pragma once

#include "host/distributed/ranks/rank_environment.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace tenon {

enum class StoreRole { kServer, kClient };
enum class StoreOf { kStart, kJob };

// Connects to the store at the environment's master; with kServer, opens the store first. Keys
// start with run and restart, so that restarted ranks never read the values of earlier ranks. With
// kJob, keys start with the run only.
// Errors  distributed.port_taken; distributed.unreachable if it does not answer within `timeout`;
//         distributed.unauthenticated if it has another secret
c10::intrusive_ptr<c10d::Store> open_rank_store(const RankEnvironment& environment,
                                                StoreRole role,
                                                std::chrono::milliseconds timeout,
                                                StoreOf of = StoreOf::kStart);

}  // namespace tenon
