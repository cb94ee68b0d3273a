// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/faulty_backend.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr char kVariable[] = "TENON_TEST_COLLECTIVES";

}  // namespace

class NetworkFaults {
 public:
  NetworkFaults(milliseconds delay, std::optional<uint64_t> drop_after)
      : delay_(delay), drop_after_(drop_after) {}

  ~NetworkFaults() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  NetworkFaults(const NetworkFaults&) = delete;
  NetworkFaults& operator=(const NetworkFaults&) = delete;

  bool is_late() const { return delay_.count() > 0; }

  // Counts a tensor to send; returns false if it must be dropped.
  bool count_send() {
    const std::lock_guard lock(mutex_);
    return !drop_after_ || num_sent_++ < *drop_after_;
  }
  bool is_cut_off() {
    const std::lock_guard lock(mutex_);
    return drop_after_ && num_sent_ >= *drop_after_;
  }

  // Calls `call` after the delay, in the order in which calls were added.
  void call_late(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back({Clock::now() + delay_, std::move(call)});
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { work(); });
    }
    changed_.notify_all();
  }

 private:
  struct Late {
    Clock::time_point when;
    std::function<void()> call;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !calls_.empty(); });
      if (is_over_) {
        return;
      }
      const Clock::time_point when = calls_.front().when;
      changed_.wait_until(lock, when, [this] { return is_over_; });
      if (is_over_) {
        return;
      }
      const std::function<void()> call = std::move(calls_.front().call);
      calls_.pop_front();
      lock.unlock();
      call();
      lock.lock();
    }
  }

  const milliseconds delay_;
  const std::optional<uint64_t> drop_after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Late> calls_;
  uint64_t num_sent_ = 0;
  bool is_over_ = false;
  std::thread thread_;
};

namespace {

// Work that another thread starts, or that never starts. Its timeout message contains "Timed out",
// which peer_exchange.cpp looks for.
class LateWork final : public c10d::Work {
 public:
  void begun(c10::intrusive_ptr<c10d::Work> inner) {
    const std::lock_guard lock(wait_mutex_);
    inner_ = std::move(inner);
    changed_.notify_all();
  }
  void fail(std::string why) {
    const std::lock_guard lock(wait_mutex_);
    failure_ = std::move(why);
    changed_.notify_all();
  }

  bool wait(milliseconds timeout) override {
    const auto end = Clock::now() + timeout;
    std::unique_lock lock(wait_mutex_);
    if (!changed_.wait_until(
            lock, end, [this] { return inner_ != nullptr || !failure_.empty(); })) {
      throw std::runtime_error("Timed out on a network that fails for a test");
    }
    if (inner_ == nullptr) {
      throw std::runtime_error(failure_);
    }
    const auto inner = inner_;
    lock.unlock();
    return inner->wait(
        std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(end - Clock::now())));
  }

 private:
  std::mutex wait_mutex_;
  std::condition_variable changed_;
  c10::intrusive_ptr<c10d::Work> inner_;
  std::string failure_;
};

class FaultyBackend final : public c10d::Backend {
 public:
  FaultyBackend(c10::intrusive_ptr<c10d::Backend> backend, std::shared_ptr<NetworkFaults> faults)
      : Backend(backend->getRank(), backend->getSize()),
        backend_(std::move(backend)),
        faults_(std::move(faults)) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    if (!faults_->count_send()) {
      return remembered(c10::make_intrusive<LateWork>());
    }
    if (!faults_->is_late()) {
      const std::lock_guard lock(mutex_);
      return backend_->send(tensors, peer, tag);
    }
    auto work = remembered(c10::make_intrusive<LateWork>());
    // The delayed call may run after this object is destroyed, but not after the thread has ended.
    faults_->call_late([backend = backend_, work, tensors, peer, tag]() mutable {
      try {
        work->begun(backend->send(tensors, peer, tag));
      } catch (const std::exception& error) {
        work->fail(error.what());
      }
    });
    return work;
  }

  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    if (faults_->is_cut_off()) {
      return remembered(c10::make_intrusive<LateWork>());
    }
    const std::lock_guard lock(mutex_);
    return backend_->recv(tensors, peer, tag);
  }

  void abort() override {
    {
      const std::lock_guard lock(mutex_);
      is_aborted_ = true;
      for (const auto& work : late_) {
        work->fail(kGivenUp);
      }
      late_.clear();
    }
    backend_->abort();
  }

 private:
  static constexpr char kGivenUp[] = "the groups were canceled";

  c10::intrusive_ptr<LateWork> remembered(c10::intrusive_ptr<LateWork> work) {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) {
      work->fail(kGivenUp);
    } else {
      // Works that nobody else holds have been waited for.
      std::erase_if(late_, [](const auto& one) { return one.use_count() == 1; });
      late_.push_back(work);
    }
    return work;
  }

  const c10::intrusive_ptr<c10d::Backend> backend_;
  const std::shared_ptr<NetworkFaults> faults_;  // shared by the backends of a world
  std::mutex mutex_;
  std::vector<c10::intrusive_ptr<LateWork>> late_;
  bool is_aborted_ = false;
};

[[noreturn]] void fail(const std::string& text) {
  throw Error(
      "distributed.bad_environment",
      std::string(kVariable) + "=\"" + text +
          "\" is invalid; use for example delay_ms=5 or drop_after=40,rank=1 (for tests only)");
}

}  // namespace

std::shared_ptr<NetworkFaults> read_network_faults(uint32_t rank) {
  const char* const value = std::getenv(kVariable);
  const std::string text = value == nullptr ? "" : value;
  if (text.empty()) {
    return nullptr;
  }
  milliseconds delay{0};
  std::optional<uint64_t> drop_after;
  std::optional<uint64_t> only;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    uint64_t number = 0;
    const char* const last = part.data() + part.size();
    if (equals == std::string::npos) {
      fail(text);
    }
    const auto [rest, problem] = std::from_chars(part.data() + equals + 1, last, number);
    const std::string name = part.substr(0, equals);
    if (problem != std::errc() || rest != last) {
      fail(text);
    }
    if (name == "delay_ms") {
      delay = milliseconds(number);
    } else if (name == "drop_after") {
      drop_after = number;
    } else if (name == "rank") {
      only = number;
    } else {
      fail(text);
    }
    begin = end + 1;
  }
  return only && *only != rank ? nullptr : std::make_shared<NetworkFaults>(delay, drop_after);
}

namespace {

class FaultyStore final : public Store {
 public:
  FaultyStore(std::unique_ptr<Store> store,
              std::shared_ptr<NetworkFaults> faults,
              std::function<milliseconds()> limit)
      : store_(std::move(store)), faults_(std::move(faults)), limit_(std::move(limit)) {}

  void set(const std::string& key, const std::string& value) override {
    pass();
    store_->set(key, value);
  }
  std::optional<std::string> find(const std::string& key) override {
    pass();
    return store_->find(key);
  }
  std::string set_once(const std::string& key, const std::string& value) override {
    pass();
    return store_->set_once(key, value);
  }
  int64_t add(const std::string& key, int64_t amount) override {
    pass();
    return store_->add(key, amount);
  }

 private:
  void pass() const {
    if (faults_->is_cut_off()) {
      std::this_thread::sleep_for(limit_());
      throw Error("distributed.failed", "cannot reach the store of the ranks: no answer");
    }
  }

  const std::unique_ptr<Store> store_;
  const std::shared_ptr<NetworkFaults> faults_;  // shared with the backends
  const std::function<milliseconds()> limit_;
};

}  // namespace

std::unique_ptr<Store> make_faulty_store(std::unique_ptr<Store> store,
                                         std::shared_ptr<NetworkFaults> faults,
                                         std::function<milliseconds()> limit) {
  return std::make_unique<FaultyStore>(std::move(store), std::move(faults), std::move(limit));
}

c10::intrusive_ptr<c10d::Backend> make_faulty_backend(c10::intrusive_ptr<c10d::Backend> backend,
                                                      std::shared_ptr<NetworkFaults> faults) {
  return c10::make_intrusive<FaultyBackend>(std::move(backend), std::move(faults));
}

}  // namespace tenon
