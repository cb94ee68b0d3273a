// SPDX-License-Identifier: Apache-2.0
//
// The store of a torchrun agent, for tests: c10d's own, which anybody may read and write.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdint>
#include <string>

#include "tests/support/world_ranks.hpp"

namespace tenon {

class AgentStore {
 public:
  AgentStore() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  uint16_t port() const { return store_->getPort(); }
  // As a stranger sees it.
  c10d::Store& keys() const { return *store_; }

  // A rank of the agent. Its ranks have a secret, unless `secret` is "".
  RankEnvironment rank_of(uint32_t rank,
                          uint32_t size,
                          const std::string& secret = std::string(64, 'a')) const {
    RankEnvironment environment = tenon::rank_of(rank, size, port());
    environment.launcher = "torchrun";
    environment.is_store_served = true;
    environment.secret = secret;
    return environment;
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace tenon
