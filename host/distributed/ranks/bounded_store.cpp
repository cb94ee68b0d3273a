// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/bounded_store.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/quiet_c10d.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/seconds_text.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
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
    std::optional<Error> error;  // if the failure has an id
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
      std::optional<Error> error;
      try {
        const QuietC10d quiet;
        answer = call(*shared.store);
      } catch (const Error& own) {
        error = own;
        failure = own.message();
      } catch (const std::exception& problem) {
        failure = what_without_backtrace(problem.what());
      }
      lock.lock();
      shared.error = std::move(error);
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
      is_lost_ = !AwakeClock::wait_until(
          shared_->changed, lock, AwakeClock::now() + limit, [&] { return shared_->is_answered; });
      is_silent_ = is_lost_;
      why = is_lost_ ? "no answer for " + seconds_text(limit) : shared_->failure;
      if (why.empty()) {
        return std::move(shared_->answer);
      }
      if (!is_lost_ && shared_->error.has_value()) {  // about one value: the store is not lost
        throw Error(*shared_->error);
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

std::unique_ptr<Store> make_bounded_store(c10::intrusive_ptr<c10d::Store> store,
                                          std::function<std::chrono::milliseconds()> limit) {
  return std::make_unique<BoundedStore>(std::move(store), std::move(limit));
}

}  // namespace tenon
