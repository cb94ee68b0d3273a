// SPDX-License-Identifier: Apache-2.0

// Without this macro, libtorch's header for Gloo groups is empty.
#define USE_C10D_GLOO

#include "host/distributed/collectives/gloo_backend.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <exception>
#include <gloo/transport/pair.h>
#include <mutex>
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

class Gloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

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
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(device->get());
  options->threads = 1;  // for Gloo's own collectives, which are never called
  return c10::make_intrusive<Gloo>(
      store, static_cast<int>(rank), static_cast<int>(size), std::move(options));
}

}  // namespace tenon
