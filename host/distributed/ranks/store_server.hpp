// SPDX-License-Identifier: Apache-2.0
//
// The store by which the ranks of --launch find each other, held by the launcher: it is there
// before the first rank and after the last, at a port that nobody else can have taken. It listens
// on the loopback alone. What ranks keep in it, and how they talk, is world.hpp's.
// Invariant: its sockets are closed in the processes that this one becomes or starts.
// Threads: [main]; it answers on its own thread.
#pragma once

#include "host/distributed/ranks/store.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace tenon {

class StoreServer {
 public:
  // Errors  distributed.launch_failed if no port can be listened on: there are no file descriptors
  //         left, or the loopback is down
  StoreServer();
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  static constexpr const char* kAddress = "127.0.0.1";
  uint16_t port() const { return port_; }

  // What the ranks of `run_id` keep in it, for the launcher itself, since they were started again
  // so often.
  // Errors  distributed.unreachable
  std::unique_ptr<Store> open(const std::string& run_id, uint32_t restart = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  uint16_t port_ = 0;
};

}  // namespace tenon
