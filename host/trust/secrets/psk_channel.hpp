// SPDX-License-Identifier: Apache-2.0
//
// An encrypted connection between two processes that know the same key: TLS 1.3 with a pre-shared
// key, by OpenSSL. It has no socket: the caller moves the bytes.
// Invariants: nothing is received from a peer before the peer has proved that it knows the key, and
// nothing that was sent leaves before.
// Threads: one at a time.
// Source: RFC 8446, section 4.2.11.
#pragma once

#include "host/trust/secrets/run_secret.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon {

// The peer does not know the key.
class WrongKey : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class PskChannel {
 public:
  enum class Role { kServer, kClient };

  // `key` must outlive the channel.
  PskChannel(Role role, const RunKey& key);
  ~PskChannel();
  PskChannel(PskChannel&&) noexcept;
  PskChannel& operator=(PskChannel&&) noexcept;

  // Starts the handshake; for a client.
  // Throws WrongKey, or std::runtime_error if the peer does not use TLS.
  void start();
  // Takes bytes that came from the peer. Throws as `start`; takes nothing more afterwards.
  void take(std::string_view bytes);
  // True once both sides have proved that they know the key.
  bool is_open() const;
  // Encrypts `text` for the peer. The channel is open.
  void send(std::string_view text);

  // Returns and removes the bytes for the peer, which also exist after an error.
  std::string take_outgoing();
  // Returns and removes the text that the peer sent.
  std::string take_received();

 private:
  struct Impl;
  void advance();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
