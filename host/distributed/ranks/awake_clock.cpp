// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/awake_clock.hpp"

#include <pthread.h>
#include <thread>

namespace tenon {
namespace {

struct AwakeTime {
  std::mutex mutex;
  GapRemover gaps{std::chrono::steady_clock::now()};
};

// Lives until the process ends, as threads that wait may.
AwakeTime& awake_time() {
  static AwakeTime* const it = [] {
    auto* const made = new AwakeTime;
    std::thread looker([made] {
      constexpr std::chrono::milliseconds kBetweenLooks{100};
      for (;;) {
        std::this_thread::sleep_for(kBetweenLooks);
        const std::lock_guard lock(made->mutex);
        made->gaps.look(std::chrono::steady_clock::now());
      }
    });
    pthread_setname_np(looker.native_handle(), "tenon-clock");
    looker.detach();
    return made;
  }();
  return *it;
}

}  // namespace

AwakeClock::time_point AwakeClock::now() {
  AwakeTime& time = awake_time();
  const std::lock_guard lock(time.mutex);
  return time.gaps.time_at(std::chrono::steady_clock::now());
}

}  // namespace tenon
