// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/key_server.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/key_table.hpp"
#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/secrets/psk_channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <pthread.h>
#include <set>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using ServerClock = AwakeClock;

// How long a peer may take to prove that it knows the key, with how many bytes, and how many peers
// may do so at once. Beyond that number, the oldest one is dropped.
constexpr std::chrono::seconds kToProve{10};
constexpr size_t kBytesToProve = 16384;
constexpr size_t kMaxStrangers = 256;
constexpr std::chrono::milliseconds kFullPause{10};  // while no file descriptor is free
// An answer that is not fetched must not pile up.
constexpr size_t kMaxUnsent = 2 * kMaxMessage;
constexpr int64_t kLongestWaitMs = int64_t{1} << 40;

// Marks in the data of epoll; connections are numbered from 2.
constexpr uint64_t kListenerMark = 0;
constexpr uint64_t kStopMark = 1;

std::string peer_name(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address),
                    size,
                    host,
                    sizeof(host),
                    nullptr,
                    0,
                    NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return host;
}

// A request that waits for keys.
struct WaitingRequest {
  StoreMessage request;
  size_t next_key = 0;  // the first one that may be missing
};

class Connection {
 public:
  Connection(int fd, std::string peer, const RunKey& key, ServerClock::time_point deadline)
      : fd_(fd),
        peer_(std::move(peer)),
        channel_(PskChannel::Role::kServer, key),
        deadline_(deadline) {}
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  const std::string& peer() const { return peer_; }
  PskChannel& channel() { return channel_; }
  StoreMessageReader& reader() { return reader_; }
  std::optional<WaitingRequest>& waiting() { return waiting_; }
  bool has_unsent() const { return !unsent_.empty(); }

  std::optional<ServerClock::time_point> deadline() const { return deadline_; }
  void set_deadline(std::optional<ServerClock::time_point> deadline) { deadline_ = deadline; }

  // Counts the bytes of a peer that has not proved itself. Returns false if they are too many.
  bool may_take(size_t bytes) {
    num_taken_ += bytes;
    return channel_.is_open() || num_taken_ <= kBytesToProve;
  }

  // Writes as much as the socket takes. Returns false if the peer is gone, or does not read.
  bool flush() {
    unsent_ += channel_.take_outgoing();
    while (!unsent_.empty()) {
      const ssize_t sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        const bool is_later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        return is_later && unsent_.size() <= kMaxUnsent;
      }
      unsent_.erase(0, static_cast<size_t>(sent));
    }
    return true;
  }

 private:
  const int fd_;
  const std::string peer_;
  PskChannel channel_;
  StoreMessageReader reader_;
  std::optional<WaitingRequest> waiting_;
  std::optional<ServerClock::time_point> deadline_;  // of the proof, or of the request that waits
  std::string unsent_;
  size_t num_taken_ = 0;
};

}  // namespace

ListeningSocket listen_at(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), formatted("{}", port).c_str(), &hints, &found) != 0) {
    throw std::system_error(EADDRNOTAVAIL, std::generic_category(), address);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  const int fd =
      ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  const int on = 1;
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    const int error = errno;
    if (fd >= 0) {
      ::close(fd);
    }
    throw std::system_error(error, std::generic_category(), address);
  }
  const auto net_port = bound.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
  return {fd, ntohs(net_port)};
}

struct KeyServer::Impl {
  Impl(ListeningSocket listening, const RunKey& run_key)
      : socket(listening),
        key(run_key),
        poller(::epoll_create1(EPOLL_CLOEXEC)),
        stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const int error = errno;
    if (poller < 0 || stop < 0 || !watch(socket.fd, kListenerMark, EPOLLIN) ||
        !watch(stop, kStopMark, EPOLLIN)) {
      close_all();
      throw Error("distributed.launch_failed",
                  std::string("cannot serve the store of the ranks: ") + std::strerror(error) +
                      "; raise ulimit -n");
    }
    ServerClock::now();  // starts the clock here, where a refused thread is an error of the caller
    thread = std::thread([this] { serve(); });
    ::pthread_setname_np(thread.native_handle(), "tenon-store");
  }

  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop, &one, sizeof(one));
    thread.join();
    connections.clear();
    close_all();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void close_all() const {
    for (const int fd : {socket.fd, poller, stop}) {
      if (fd >= 0) {
        ::close(fd);
      }
    }
  }

  bool watch(int fd, uint64_t mark, uint32_t events, int operation = EPOLL_CTL_ADD) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = mark;
    return ::epoll_ctl(poller, operation, fd, &event) == 0;
  }

  void serve() {
    std::array<epoll_event, 64> events{};
    for (;;) {
      const int count =
          ::epoll_wait(poller, events.data(), static_cast<int>(events.size()), ms_to_wait());
      for (int i = 0; i < count; ++i) {
        const uint64_t mark = events[static_cast<size_t>(i)].data.u64;
        if (mark == kStopMark) {
          return;
        }
        if (mark == kListenerMark) {
          accept_one();
        } else if (connections.contains(mark)) {
          guarded(mark, [&] { step(mark, events[static_cast<size_t>(i)].events); });
        }
      }
      end_late_ones();
    }
  }

  int ms_to_wait() const {
    if (deadlines.empty()) {
      return -1;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadlines.begin()->first - ServerClock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
  }

  void accept_one() {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int fd = ::accept4(
        socket.fd, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      const bool is_full = errno == EMFILE || errno == ENFILE;
      const bool is_over = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      if (is_full && !strangers.empty()) {
        drop_oldest_stranger();
      } else if (!is_over) {
        std::this_thread::sleep_for(kFullPause);  // the stranger is still there
      }
      return;
    }
    if (strangers.size() >= kMaxStrangers) {
      drop_oldest_stranger();
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const uint64_t id = next_id++;
    const auto deadline = ServerClock::now() + kToProve;
    connections.emplace(id,
                        std::make_unique<Connection>(fd, peer_name(address, size), key, deadline));
    strangers.insert(id);
    deadlines.emplace(deadline, id);
    if (!watch(fd, id, EPOLLIN)) {
      drop(id);
    }
  }

  void drop_oldest_stranger() {
    if (!strangers.empty()) {
      refuse(*strangers.begin(), "too many others");
    }
  }

  void drop(uint64_t id) {
    const auto found = connections.find(id);
    if (found->second->deadline().has_value()) {
      deadlines.erase({*found->second->deadline(), id});
    }
    if (const auto& waiting = found->second->waiting(); waiting.has_value()) {
      forget_wait(id, waiting->request.texts[waiting->next_key]);
    }
    strangers.erase(id);
    connections.erase(found);
  }

  // Drops a peer that has not proved that it knows the key. One line in the log suffices: a
  // stranger could fill the log.
  void refuse(uint64_t id, const std::string& why) {
    if (!std::exchange(has_refused, true)) {
      log_warning(
          formatted("refused a connection to the store of the ranks from {}: {}; further "
                    "ones are not logged (docs/security.md)",
                    connections.at(id)->peer(),
                    why));
    }
    drop(id);
  }

  // Reads and writes what the connection has, and answers.
  void step(uint64_t id, uint32_t events) {
    Connection& connection = *connections.at(id);
    const bool was_open = connection.channel().is_open();
    try {
      if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !read(connection)) {
        was_open ? drop(id) : refuse(id, "it did not prove that it has the secret of the run");
        return;
      }
      if (!was_open && connection.channel().is_open()) {
        strangers.erase(id);
        set_deadline(id, std::nullopt);
      }
      answer_all(id);
    } catch (const std::exception& problem) {
      connection.flush();  // the alert
      was_open ? drop(id) : refuse(id, problem.what());
      return;
    }
    flush(id);
  }

  void flush(uint64_t id) {
    Connection& connection = *connections.at(id);
    const bool had_unsent = connection.has_unsent();
    if (!connection.flush()) {
      drop(id);
    } else if (connection.has_unsent() != had_unsent) {
      const uint32_t events = connection.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN;
      watch(connection.fd(), id, events, EPOLL_CTL_MOD);
    }
  }

  // Returns false if the connection is over.
  static bool read(Connection& connection) {
    std::array<char, 65536> bytes;
    const size_t limit = connection.channel().is_open() ? bytes.size() : kBytesToProve;
    const ssize_t count = ::recv(connection.fd(), bytes.data(), limit, 0);
    if (count < 0) {
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }
    if (count == 0 || !connection.may_take(static_cast<size_t>(count))) {
      return false;
    }
    connection.channel().take({bytes.data(), static_cast<size_t>(count)});
    connection.reader().add(connection.channel().take_received());
    return true;
  }

  void answer_all(uint64_t id) {
    Connection& connection = *connections.at(id);
    while (!connection.waiting().has_value()) {
      std::optional<StoreMessage> request = connection.reader().next();
      if (!request.has_value()) {
        return;
      }
      const auto kind = static_cast<StoreRequest>(request->kind);
      if (kind == StoreRequest::kGet || kind == StoreRequest::kWait) {
        const auto wait =
            std::chrono::milliseconds(std::clamp<int64_t>(request->number, 0, kLongestWaitMs));
        connection.waiting() = WaitingRequest{std::move(*request)};
        if (!try_waiting(id)) {
          set_deadline(id, ServerClock::now() + wait);
        }
        continue;
      }
      reply(connection, table.answer(*request));
      const bool may_wake = kind == StoreRequest::kSet || kind == StoreRequest::kAdd ||
                            kind == StoreRequest::kCompareSet;
      if (may_wake && !request->texts.empty()) {
        connection.flush();  // first: a rank that wakes may end this server
        wake(request->texts.front());
      }
    }
  }

  static void reply(Connection& connection, const StoreMessage& message) {
    connection.channel().send(to_bytes(message));
  }

  // Answers the request that waits if all its keys exist. Otherwise notes the key it waits for.
  bool try_waiting(uint64_t id) {
    Connection& connection = *connections.at(id);
    WaitingRequest& waiting = *connection.waiting();
    const auto& keys = waiting.request.texts;
    for (; waiting.next_key < keys.size(); ++waiting.next_key) {
      if (!table.has(keys[waiting.next_key])) {
        waiting_for.emplace(keys[waiting.next_key], id);
        return false;
      }
    }
    StoreMessage message{static_cast<uint8_t>(StoreAnswer::kDone), 0, {}};
    if (static_cast<StoreRequest>(waiting.request.kind) == StoreRequest::kGet && keys.size() == 1) {
      message.texts.push_back(table.at(keys.front()));
    }
    connection.waiting().reset();
    set_deadline(id, std::nullopt);
    reply(connection, message);
    return true;
  }

  // Continues the requests that wait for key `name`, which exists now.
  void wake(const std::string& name) {
    const auto [first, last] = waiting_for.equal_range(name);
    std::vector<uint64_t> ids;
    for (auto entry = first; entry != last; ++entry) {
      ids.push_back(entry->second);
    }
    waiting_for.erase(first, last);
    for (const uint64_t id : ids) {
      const auto found = connections.find(id);
      if (found != connections.end() && is_waiting_for(*found->second, name)) {
        guarded(id, [&] {
          if (try_waiting(id)) {
            flush(id);
          }
        });
      }
    }
  }

  // An entry of `waiting_for` outlives a request that timed out, and its connection.
  static bool is_waiting_for(Connection& connection, const std::string& name) {
    const auto& waiting = connection.waiting();
    return waiting.has_value() && waiting->next_key < waiting->request.texts.size() &&
           waiting->request.texts[waiting->next_key] == name;
  }

  void set_deadline(uint64_t id, std::optional<ServerClock::time_point> deadline) {
    Connection& connection = *connections.at(id);
    if (connection.deadline().has_value()) {
      deadlines.erase({*connection.deadline(), id});
    }
    connection.set_deadline(deadline);
    if (deadline.has_value()) {
      deadlines.emplace(*deadline, id);
    }
  }

  void end_late_ones() {
    const auto now = ServerClock::now();
    while (!deadlines.empty() && deadlines.begin()->first <= now) {
      const uint64_t id = deadlines.begin()->second;
      Connection& connection = *connections.at(id);
      if (!connection.channel().is_open()) {
        refuse(id, "it did not prove that it has the secret of the run");
        continue;
      }
      const auto& keys = connection.waiting()->request.texts;
      const std::string missing = keys[connection.waiting()->next_key];
      forget_wait(id, missing);
      connection.waiting().reset();
      set_deadline(id, std::nullopt);
      guarded(id, [&] {
        reply(connection, {static_cast<uint8_t>(StoreAnswer::kTimedOut), 0, {missing}});
        answer_all(id);
        flush(id);
      });
    }
  }

  // Drops the connection if `body` fails: no peer may end the server.
  template <class Body>
  void guarded(uint64_t id, Body&& body) {
    try {
      body();
    } catch (const std::exception&) {
      if (connections.contains(id)) {
        drop(id);
      }
    }
  }

  void forget_wait(uint64_t id, const std::string& name) {
    const auto [first, last] = waiting_for.equal_range(name);
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second == id) {
        waiting_for.erase(entry);
        return;
      }
    }
  }

  const ListeningSocket socket;
  const RunKey key;
  const int poller;
  const int stop;
  KeyTable table;
  uint64_t next_id = 2;
  std::map<uint64_t, std::unique_ptr<Connection>> connections;
  std::set<uint64_t> strangers;  // connections that have not proved themselves, oldest first
  std::set<std::pair<ServerClock::time_point, uint64_t>> deadlines;
  std::multimap<std::string, uint64_t> waiting_for;  // key to connection
  bool has_refused = false;
  std::thread thread;  // last member: uses the others
};

KeyServer::KeyServer(ListeningSocket socket, const RunKey& key)
    : impl_(std::make_unique<Impl>(socket, key)) {}

KeyServer::~KeyServer() = default;

uint16_t KeyServer::port() const {
  return impl_->socket.port;
}

}  // namespace tenon
