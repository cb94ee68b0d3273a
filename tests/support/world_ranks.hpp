// SPDX-License-Identifier: Apache-2.0
//
// Worlds of real connections over loopback whose ranks are threads of one process, for tests. What
// a rank throws is kept as text; checks are made on the main thread afterwards.
#pragma once

#include "host/distributed/collectives/world.hpp"
#include "host/distributed/ranks/rank_environment.hpp"

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tenon {

// A socket that listens on a port of loopback, which nobody else can have meanwhile.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof(address);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
        listen(socket_, 1) == 0 &&
        getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      port_ = ntohs(address.sin_port);
    }
  }
  ~TakenPort() { close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  uint16_t port() const { return port_; }

 private:
  int socket_;
  uint16_t port_ = 0;
};

// A port that nobody had a moment ago.
inline uint16_t free_port() {
  return TakenPort().port();
}

inline RankEnvironment rank_of(uint32_t rank, uint32_t size, uint16_t port) {
  RankEnvironment environment;
  environment.launcher = "environment";
  environment.rank = rank;
  environment.world_size = size;
  environment.local_rank = rank;
  environment.local_world_size = size;
  environment.master_addr = "127.0.0.1";
  environment.master_port = port;
  return environment;
}

// Limits that no healthy test meets, and that end a sick one. Ranks share memory, unless the
// variable TENON_TEST_NETWORK has them talk over the network as those of several machines do.
inline WorldOptions short_limits() {
  return {.start_timeout = std::chrono::seconds(60),
          .timeout = std::chrono::seconds(60),
          .share_memory = std::getenv("TENON_TEST_NETWORK") == nullptr};
}

// Runs `body` on `size` threads and returns what each of them threw: "" where nothing.
inline std::vector<std::string> on_ranks(uint32_t size,
                                         const std::function<void(uint32_t rank)>& body) {
  std::vector<std::string> thrown(size);
  {
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const std::exception& error) {
          thrown[rank] = error.what();
        }
      });
    }
  }
  return thrown;
}

// The same with a world joined by each.
inline std::vector<std::string> on_worlds(uint32_t size,
                                          const WorldOptions& options,
                                          const std::function<void(World& world)>& body) {
  const uint16_t port = free_port();
  return on_ranks(size, [&](uint32_t rank) {
    const auto world = World::join(rank_of(rank, size, port), options);
    body(*world);
  });
}

}  // namespace tenon
