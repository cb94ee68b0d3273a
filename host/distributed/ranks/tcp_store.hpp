// SPDX-License-Identifier: Apache-2.0
//
// c10d's store over TCP, as the host opens and calls it.
#pragma once

#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/store.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>

namespace tenon {

enum class StoreRole { kServer, kClient };
enum class StoreOf { kStart, kJob };

// Connects to the store at the environment's master; with kServer, opens the store first. Keys
// start with run and restart, so that restarted ranks never read the values of earlier ranks. With
// kJob, keys start with the run only.
// Errors  distributed.port_taken; distributed.unreachable if it does not answer within `timeout`
c10::intrusive_ptr<c10d::Store> open_tcp_store(const RankEnvironment& environment,
                                               StoreRole role,
                                               std::chrono::milliseconds timeout,
                                               StoreOf of = StoreOf::kStart);

// Wraps `store` for one thread. A call that gets no answer is canceled after `limit`, which is
// queried for each call; c10d would wait forever. The loss of the store's holder is reported at
// once.
std::unique_ptr<Store> make_bounded_store(c10::intrusive_ptr<c10d::Store> store,
                                          std::function<std::chrono::milliseconds()> limit);

}  // namespace tenon
