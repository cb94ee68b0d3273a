// SPDX-License-Identifier: Apache-2.0

// Without this macro, libtorch's header for Gloo groups is empty.
#define USE_C10D_GLOO

#include "host/distributed/collectives/gloo_backend.hpp"

#include "host/distributed/ranks/awake_clock.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <gloo/transport/pair.h>
#include <map>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <utility>

// Gloo's function that ends a connection and wakes all waiting threads. Only this part of the class
// is declared, because the system has no self-contained header for it. The public interface can
// only close a connection. The waiting threads of this process would then wait until their timeout.
namespace gloo::transport::tcp {
class Pair {
 public:
  std::exception_ptr signalExceptionExternal(const std::string& why);
};
}  // namespace gloo::transport::tcp

namespace tenon {

class GlooDevice {
 public:
  explicit GlooDevice(std::shared_ptr<gloo::transport::Device> device)
      : device_(std::move(device)) {}
  const std::shared_ptr<gloo::transport::Device>& get() const { return device_; }

 private:
  std::shared_ptr<gloo::transport::Device> device_;
};

namespace {

using std::chrono::milliseconds;

// Ends waits whose time is over. Gloo's own limit would also count time in which all ranks were
// suspended. Lives until the process ends, as threads that wait may.
class LateWaits {
 public:
  static LateWaits& get() {
    static LateWaits* const it = new LateWaits;
    return *it;
  }

  void add(const void* wait, AwakeClock::time_point end, c10::intrusive_ptr<c10d::Work> work) {
    const std::lock_guard lock(mutex_);
    waits_[wait] = {end, std::move(work), false};
  }
  // Returns true if the time of the wait was over.
  bool remove(const void* wait) {
    const std::lock_guard lock(mutex_);
    const auto found = waits_.find(wait);
    const bool is_late = found->second.is_late;
    waits_.erase(found);
    return is_late;
  }

 private:
  struct Wait {
    AwakeClock::time_point end;
    c10::intrusive_ptr<c10d::Work> work;
    bool is_late;
  };

  LateWaits() {
    std::thread thread([this] { look(); });
    pthread_setname_np(thread.native_handle(), "tenon-late");
    thread.detach();
  }

  void look() {
    constexpr milliseconds kBetweenLooks{50};
    constexpr milliseconds kShortest{1};
    AwakeClock::duration pause = kBetweenLooks;
    for (;;) {
      std::this_thread::sleep_for(pause);
      const std::lock_guard lock(mutex_);
      const auto now = AwakeClock::now();
      pause = kBetweenLooks;
      for (auto& [id, wait] : waits_) {
        if (now >= wait.end) {
          wait.is_late = true;
          wait.work->abort();  // again with each look: the wait may begin only now
        } else {
          pause = std::clamp<AwakeClock::duration>(wait.end - now, kShortest, pause);
        }
      }
    }
  }

  std::mutex mutex_;
  std::map<const void*, Wait> waits_;
};

// A message of Gloo, whose limit does not count time in which this process was suspended.
class AwakeWork final : public c10d::Work {
 public:
  explicit AwakeWork(c10::intrusive_ptr<c10d::Work> inner) : inner_(std::move(inner)) {}

  bool wait(milliseconds timeout) override {
    constexpr std::chrono::hours kNever{24 * 365};
    LateWaits& late = LateWaits::get();
    late.add(this, AwakeClock::now() + timeout, inner_);
    bool is_done = false;
    try {
      is_done = inner_->wait(kNever);
    } catch (...) {
      late.remove(this);
      throw;
    }
    if (late.remove(this) && !is_done) {
      throw std::runtime_error("Timed out waiting for a message");
    }
    return is_done;
  }

 private:
  const c10::intrusive_ptr<c10d::Work> inner_;
};

class Gloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    return c10::make_intrusive<AwakeWork>(ProcessGroupGloo::send(tensors, peer, tag));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors,
                                      int peer,
                                      int tag) override {
    return c10::make_intrusive<AwakeWork>(ProcessGroupGloo::recv(tensors, peer, tag));
  }

  void abort() override {
    for (const auto& context : contexts_) {
      for (int peer = 0; peer < getSize(); ++peer) {
        const auto& pair = context->getPair(peer);
        if (pair != nullptr) {
          // Pair is the first base class of the TCP pair, so both have the same address.
          reinterpret_cast<gloo::transport::tcp::Pair&>(*pair).signalExceptionExternal(
              "the groups were canceled");
        }
      }
    }
  }
};

// c10d's flight recorder writes to a map without a lock, but this host starts collectives from
// several threads. The host keeps its own record (collective_log.hpp).
void turn_flight_recorder_off() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("TORCH_FR_BUFFER_SIZE", "0", 1); });
}

// Gives this thread the lowest priority, so that it runs mainly when no other thread has work.
// Gloo's thread repeatedly requests the lock of a connection that another thread writes to. With
// equal priority, it would often run on the processor that the other thread waits for.
void step_back() {
  constexpr int kLowest = 19;
  // Failure is not expected; the thread would keep its normal priority.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest);
}

}  // namespace

std::shared_ptr<GlooDevice> open_gloo_device(const std::string& interface,
                                             const std::string& address) {
  turn_flight_recorder_off();
  std::shared_ptr<GlooDevice> device;
  std::exception_ptr failure;
  // Gloo's own thread inherits the priority of the thread that creates it.
  std::thread([&] {
    step_back();
    try {
      device = std::make_shared<GlooDevice>(
          interface.empty() ? c10d::ProcessGroupGloo::createDeviceForHostname(address)
                            : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    } catch (...) {  // NOLINT(bugprone-empty-catch): thrown below
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  return device;
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const std::shared_ptr<GlooDevice>& device,
                                                    const c10::intrusive_ptr<c10d::Store>& store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout) {
  LateWaits::get();  // starts its thread here, where a refused thread is an error of this rank
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(device->get());
  options->threads = 1;  // for Gloo's own collectives, which are never called
  return c10::make_intrusive<Gloo>(
      store, static_cast<int>(rank), static_cast<int>(size), std::move(options));
}

}  // namespace tenon
