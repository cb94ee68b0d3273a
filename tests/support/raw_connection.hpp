// SPDX-License-Identifier: Apache-2.0
//
// A connection to a port of this machine, for tests that send what no rank sends.
#pragma once

#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace tenon {

class RawConnection {
 public:
  // A call waits for `patience` at most; 0: without a limit.
  explicit RawConnection(uint16_t port,
                         std::chrono::milliseconds patience = std::chrono::milliseconds(0),
                         const char* address = "127.0.0.1")
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{.tv_sec = patience.count() / 1000,
                        .tv_usec = patience.count() % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    ::inet_pton(AF_INET, address, &to.sin_addr);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool is_connected() const { return is_connected_; }
  // Sends `text`. Returns all that comes back until the other side closes the connection, or is
  // silent for too long.
  std::string answer_to(const std::string& text) const {
    (void)!::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    std::string all;
    char bytes[4096];
    for (ssize_t count; (count = ::recv(socket_, bytes, sizeof(bytes), 0)) > 0;) {
      all.append(bytes, static_cast<size_t>(count));
    }
    return all;
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

}  // namespace tenon
