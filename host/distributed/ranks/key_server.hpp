// SPDX-License-Identifier: Apache-2.0
//
// Serves a table of keys to the ranks of a run, over connections that psk_channel.hpp protects. The
// store of the ranks is one of these, unless a launcher brings its own. store_client.hpp is the
// other side.
// Invariants: a peer without the key gets no answer, and costs a bounded amount of memory for a
// bounded time; its sockets are closed in the programs that this process starts.
// Threads: a separate thread answers; any may create and destroy the server.
#pragma once

#include "host/trust/secrets/run_secret.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace tenon {

// A socket that listens. Closed by its owner.
struct ListeningSocket {
  int fd = -1;
  uint16_t port = 0;
};

// Listens at an address of this machine; at a free port if `port` is 0.
// Throws std::system_error.
ListeningSocket listen_at(const std::string& address, uint16_t port);

class KeyServer {
 public:
  // Takes the socket.
  // Errors  distributed.launch_failed if no file descriptors are left
  KeyServer(ListeningSocket socket, const RunKey& key);
  // Closes all connections.
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

  uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
