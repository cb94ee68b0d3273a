// SPDX-License-Identifier: Apache-2.0
//
// The store through which the ranks of --launch find each other, held by the launcher. It exists
// before the first rank and after the last one, at a port that no other program can have taken. It
// listens on loopback only, and answers only processes with the secret of the run. world.hpp
// defines its contents and the communication of ranks. Invariant: its sockets are closed in the
// processes that this one becomes or starts. Threads: [main]; the store answers on its own thread.
#pragma once

#include "host/distributed/ranks/key_server.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/store.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace tenon {

class StoreServer {
 public:
  // Errors  distributed.launch_failed if it cannot listen on a port: no file descriptors are left,
  //         or loopback is down
  explicit StoreServer(const std::string& run_id = "", const std::string& secret = "");
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  static constexpr const char* kAddress = "127.0.0.1";
  uint16_t port() const { return environment_.master_port; }

  // Opens the entries of the ranks at restart number `restart`, for the launcher itself.
  // Errors  distributed.unreachable
  std::unique_ptr<Store> open(uint32_t restart = 0) const;

 private:
  RankEnvironment environment_;
  std::unique_ptr<KeyServer> keys_;
};

}  // namespace tenon
