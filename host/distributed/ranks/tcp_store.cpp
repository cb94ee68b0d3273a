// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/tcp_store.hpp"

#include "host/distributed/ranks/network_address.hpp"
#include "host/distributed/ranks/quiet_c10d.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

constexpr std::chrono::seconds kOpeningSlack{1};  // lets c10d's own limit expire first

std::string place_of(const RankEnvironment& environment) {
  return formatted("{}:{}", environment.master_addr, environment.master_port);
}

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Opens a socket that listens at the master's port. Returns none if the master has no IPv4 address;
// c10d then listens itself. On c10d's own socket, every client has an IPv6 address, even 127.0.0.1.
// The server looks up the name of each client, and blocks meanwhile. /etc/hosts knows the IPv4
// address only, so the lookup asks the name service, and takes seconds if it does not answer.
std::optional<int> listen_at(const RankEnvironment& environment) {
  const std::string address =
      local_address_towards(environment.master_addr, environment.master_port);
  if (address.find(':') != std::string::npos) {
    return std::nullopt;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(environment.master_port);
  if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int problem = errno;
  if (fd >= 0) {
    close(fd);
  }
  if (problem == EADDRINUSE) {
    throw Error("distributed.port_taken",
                "rank 0 cannot open the store of the ranks at " + place_of(environment) +
                    ": another program uses the port; end it, or set another MASTER_PORT");
  }
  throw Error("distributed.unreachable",
              "rank 0 cannot open the store of the ranks at " + place_of(environment) + ": " +
                  std::strerror(problem) + "; check MASTER_PORT and ulimit -n");
}

// Opens the store on a separate thread: c10d would wait forever for a master that accepts the
// connection and never answers. In that case the thread is abandoned.
StorePtr open_within(const std::string& host,
                     const c10d::TCPStoreOptions& options,
                     std::chrono::milliseconds limit) {
  auto opened = std::make_shared<std::promise<StorePtr>>();
  auto future = opened->get_future();
  std::thread([opened, host, options] {
    try {
      opened->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (const std::exception&) {
      opened->set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(limit) != std::future_status::ready) {
    throw std::runtime_error("the port accepts connections, but is not a store of ranks");
  }
  return future.get();
}

// Makes the calls on a separate thread, which is abandoned if a call is never answered.
class BoundedStore final : public Store {
 public:
  BoundedStore(c10::intrusive_ptr<c10d::Store> store,
               std::function<std::chrono::milliseconds()> limit)
      : limit_(std::move(limit)), shared_(std::make_shared<Shared>()) {
    shared_->store = std::move(store);
    thread_ = std::thread([shared = shared_] { serve(*shared); });
  }
  ~BoundedStore() override {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->is_over = true;
      shared_->changed.notify_all();
    }
    is_silent_ ? thread_.detach() : thread_.join();
  }
  BoundedStore(const BoundedStore&) = delete;
  BoundedStore& operator=(const BoundedStore&) = delete;

  void set(const std::string& key, const std::string& value) override {
    call([key, value](c10d::Store& store) {
      store.set(key, bytes_of(value));
      return std::optional<std::string>();
    });
  }

  std::optional<std::string> find(const std::string& key) override {
    return call([key](c10d::Store& store) {
      return store.check({key}) ? std::optional(text_of(store.get(key))) : std::nullopt;
    });
  }

  std::string set_once(const std::string& key, const std::string& value) override {
    return call([key, value](c10d::Store& store) {
             // With an empty expected value, the store sets a key that does not exist.
             return std::optional(text_of(store.compareSet(key, {}, bytes_of(value))));
           })
        .value_or(value);
  }

  int64_t add(const std::string& key, int64_t amount) override {
    return std::stoll(call([key, amount](c10d::Store& store) {
                        return std::optional(std::to_string(store.add(key, amount)));
                      }).value_or("0"));
  }

 private:
  using Call = std::function<std::optional<std::string>(c10d::Store&)>;

  // Owned by the store and by its thread, which may outlive it.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    c10::intrusive_ptr<c10d::Store> store;
    Call call;
    bool is_called = false;
    bool is_answered = false;
    bool is_over = false;
    std::optional<std::string> answer;
    std::string failure;
  };

  static void serve(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    for (;;) {
      shared.changed.wait(lock, [&] { return shared.is_called || shared.is_over; });
      if (shared.is_over) {
        break;
      }
      shared.is_called = false;
      const Call call = std::move(shared.call);
      lock.unlock();
      std::optional<std::string> answer;
      std::string failure;
      try {
        const QuietC10d quiet;
        answer = call(*shared.store);
      } catch (const std::exception& error) {
        failure = what_without_backtrace(error.what());
      }
      lock.lock();
      shared.answer = std::move(answer);
      shared.failure = std::move(failure);
      shared.is_answered = true;
      shared.changed.notify_all();
    }
    auto store = std::move(shared.store);
    lock.unlock();
  }

  std::optional<std::string> call(Call call) {
    std::unique_lock lock(shared_->mutex);
    std::string why = shared_->failure;
    if (!is_lost_) {
      shared_->call = std::move(call);
      shared_->is_called = true;
      shared_->is_answered = false;
      shared_->changed.notify_all();
      const std::chrono::milliseconds limit = limit_();
      is_lost_ = !shared_->changed.wait_for(lock, limit, [&] { return shared_->is_answered; });
      is_silent_ = is_lost_;
      why = is_lost_ ? "no answer for " + seconds_text(limit) : shared_->failure;
      if (why.empty()) {
        return std::move(shared_->answer);
      }
      shared_->failure = why;
      is_lost_ = true;
    }
    throw Error("distributed.failed",
                "cannot reach the store of the ranks: " + why +
                    "; check that the rank or launcher that holds the store is still running");
  }

  const std::function<std::chrono::milliseconds()> limit_;
  std::shared_ptr<Shared> shared_;
  bool is_lost_ = false;
  bool is_silent_ = false;  // a call is still running on the thread
  std::thread thread_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> open_tcp_store(const RankEnvironment& environment,
                                               StoreRole role,
                                               std::chrono::milliseconds timeout,
                                               StoreOf of) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = role == StoreRole::kServer;
  options.waitWorkers = false;
  options.timeout = timeout;
  const auto end = std::chrono::steady_clock::now() + timeout;
  if (role == StoreRole::kServer) {
    options.masterListenFd = listen_at(environment);
  }
  const QuietC10d quiet;
  try {
    if (role == StoreRole::kClient &&
        !wait_for_listener(environment.master_addr, environment.master_port, end)) {
      throw std::runtime_error("no program listens there");
    }
    return c10::make_intrusive<c10d::PrefixStore>(
        formatted("tenon/{}{}",
                  environment.run_id,
                  of == StoreOf::kStart ? formatted("/{}", environment.restart) : ""),
        open_within(environment.master_addr, options, timeout + kOpeningSlack));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why(what_without_backtrace(error.what()));
    throw Error("distributed.unreachable",
                (role == StoreRole::kServer
                     ? "rank 0 cannot open the store of the ranks at " + place_of(environment)
                     : "the master at " + place_of(environment) + " did not answer within " +
                           seconds_text(timeout)) +
                    ": " + why +
                    "; check that rank 0 is running, that MASTER_ADDR and MASTER_PORT are correct "
                    "on this machine, and that no firewall blocks the connection");
  }
}

std::unique_ptr<Store> make_bounded_store(c10::intrusive_ptr<c10d::Store> store,
                                          std::function<std::chrono::milliseconds()> limit) {
  return std::make_unique<BoundedStore>(std::move(store), std::move(limit));
}

}  // namespace tenon
