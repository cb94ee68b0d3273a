// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/store_client.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/network_address.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using ClientClock = AwakeClock;
using std::chrono::milliseconds;

// The server closed the connection during the handshake: it may be busy with strangers.
class ClosedEarly : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Late : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr milliseconds kRetryPause{20};

std::string as_text(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}
std::vector<uint8_t> as_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

// Waits until the socket is ready.
void await_socket(int socket, short events, ClientClock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - ClientClock::now());
    if (left.count() <= 0) {
      throw Late("no answer in time");
    }
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count(), 1 << 30))) > 0) {
      return;
    }
  }
}

bool is_retry(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

void send_all(int socket, std::string_view bytes, ClientClock::time_point end) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (is_retry(errno)) {
      await_socket(socket, POLLOUT, end);
    } else {
      throw ClosedEarly(std::string("the connection was closed: ") + std::strerror(errno));
    }
  }
}

}  // namespace

StoreClient::StoreClient(std::string host,
                         uint16_t port,
                         const RunKey& key,
                         std::chrono::steady_clock::time_point end,
                         std::chrono::milliseconds timeout,
                         std::shared_ptr<KeyServer> held)
    : c10d::Store(timeout),
      held_(std::move(held)),
      host_(std::move(host)),
      port_(port),
      key_(key),
      channel_(PskChannel::Role::kClient, key_) {
  for (;;) {
    try {
      open(end);
      return;
    } catch (const ClosedEarly&) {
      ::close(std::exchange(socket_, -1));
      if (ClientClock::now() + kRetryPause >= end) {
        throw;
      }
    } catch (const std::exception&) {
      if (socket_ >= 0) {
        ::close(socket_);
      }
      throw;
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

StoreClient::~StoreClient() {
  ::close(socket_);
}

void StoreClient::open(Time end) {
  channel_ = PskChannel(PskChannel::Role::kClient, key_);
  socket_ = connect_to(host_, port_, end);
  if (socket_ < 0) {
    throw std::runtime_error("no program listens there");
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  channel_.start();
  try {
    while (!channel_.is_open()) {
      exchange_bytes(end);
    }
  } catch (const Late&) {
    throw std::runtime_error("the port accepts connections, but is not a store of ranks");
  }
  send_all(socket_, channel_.take_outgoing(), end);
}

// Sends what is to be sent, and takes what comes next.
void StoreClient::exchange_bytes(Time end) {
  send_all(socket_, channel_.take_outgoing(), end);
  std::array<char, 65536> bytes;
  ssize_t count = 0;
  while ((count = ::recv(socket_, bytes.data(), bytes.size(), 0)) < 0) {
    if (!is_retry(errno)) {
      throw ClosedEarly(std::string("the connection was closed: ") + std::strerror(errno));
    }
    await_socket(socket_, POLLIN, end);
  }
  if (count == 0) {
    throw ClosedEarly("the connection was closed");
  }
  channel_.take({bytes.data(), static_cast<size_t>(count)});
  reader_.add(channel_.take_received());
}

// Requests are answered at once, except those that wait. The limit is that of the store, since the
// server may be busy, and its machine may be lost.
StoreMessage StoreClient::ask(StoreRequest request,
                              std::vector<std::string> texts,
                              int64_t number,
                              milliseconds wait) {
  const std::lock_guard lock(mutex_);
  if (is_lost_) {
    throw std::runtime_error("the connection is lost");
  }
  const auto end = ClientClock::now() + wait + std::max(timeout_, milliseconds(1000));
  try {
    channel_.send(to_bytes({static_cast<uint8_t>(request), number, std::move(texts)}));
    for (;;) {
      if (std::optional<StoreMessage> answer = reader_.next()) {
        const auto kind = static_cast<StoreAnswer>(answer->kind);
        if (kind == StoreAnswer::kDone) {
          return std::move(*answer);
        }
        const std::string text = answer->texts.empty() ? "" : answer->texts.front();
        throw std::out_of_range(kind == StoreAnswer::kTimedOut
                                    ? formatted("wait timeout after {}ms, key: {}", number, text)
                                    : text);
      }
      exchange_bytes(end);
    }
  } catch (const std::out_of_range& refused) {  // the connection is in order
    throw std::runtime_error(refused.what());
  } catch (const std::exception&) {
    is_lost_ = true;
    throw;
  }
}

c10::intrusive_ptr<c10d::Store> StoreClient::clone() {
  return c10::make_intrusive<StoreClient>(
      host_, port_, key_, ClientClock::now() + timeout_, timeout_, held_);
}

void StoreClient::set(const std::string& key, const std::vector<uint8_t>& value) {
  ask(StoreRequest::kSet, {key, as_text(value)});
}

std::vector<uint8_t> StoreClient::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  const StoreMessage answer =
      ask(StoreRequest::kCompareSet, {key, as_text(expected), as_text(desired)});
  return as_bytes(answer.texts.at(0));
}

std::vector<uint8_t> StoreClient::get(const std::string& key) {
  return as_bytes(ask(StoreRequest::kGet, {key}, timeout_.count(), timeout_).texts.at(0));
}

int64_t StoreClient::add(const std::string& key, int64_t amount) {
  return ask(StoreRequest::kAdd, {key}, amount).number;
}

bool StoreClient::deleteKey(const std::string& key) {
  return ask(StoreRequest::kDelete, {key}).number != 0;
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  return ask(StoreRequest::kCheck, keys).number != 0;
}

int64_t StoreClient::getNumKeys() {
  return ask(StoreRequest::kCount, {}).number;
}

void StoreClient::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void StoreClient::wait(const std::vector<std::string>& keys,
                       const std::chrono::milliseconds& timeout) {
  ask(StoreRequest::kWait, keys, timeout.count(), timeout);
}

}  // namespace tenon
