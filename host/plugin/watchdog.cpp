// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/watchdog.hpp"

#include "host/plugin/call_watch.hpp"
#include "host/text/seconds_text.hpp"

#include <algorithm>
#include <cstdio>
#include <pthread.h>
#include <utility>

namespace tenon {
namespace {

using Seconds = std::chrono::duration<double>;

}  // namespace

std::string StuckCall::name() const {
  return component->describe() + ": " + function + (event.empty() ? "" : " at " + event);
}

std::string StuckCall::describe() const {
  return name() + " has not returned for " + seconds_text(seconds);
}

Watchdog::Watchdog(const WatchLimits& limits, std::function<void(const StuckCall&)> on_stuck)
    : limits_(limits), on_stuck_(std::move(on_stuck)) {
  if (!limits.data && !limits.other) {
    return;
  }
  const Seconds never{1e9};
  const Seconds shortest = std::min(limits.data.value_or(never), limits.other.value_or(never));
  const Seconds tick = std::clamp(shortest / 8, Seconds(0.005), Seconds(1));
  thread_ = std::jthread([this, tick](const std::stop_token& stop) { watch(stop, tick); });
  // For debuggers and profilers; errors are ignored.
  pthread_setname_np(thread_.native_handle(), "tenon-watchdog");
}

Watchdog::~Watchdog() = default;

void Watchdog::watch(const std::stop_token& stop, Seconds tick) {
  auto last = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, stop, tick, [&stop] { return stop.stop_requested(); })) {
    const auto now = std::chrono::steady_clock::now();
    // A longer pause of this thread means that the whole process was stopped.
    const Seconds passed = std::min(Seconds(now - last), 2 * tick);
    last = now;
    if (const std::optional<StuckCall> stuck = look(passed.count())) {
      on_stuck_(*stuck);
      return;
    }
  }
}

std::optional<StuckCall> Watchdog::look(double seconds) const {
  std::optional<StuckCall> stuck;
  visit_calls([&](CallSlot& slot) {
    const uint64_t serial = slot.serial.load(std::memory_order_acquire);
    const LoadedComponent* const component = slot.component.load(std::memory_order_relaxed);
    if (component == nullptr || serial != slot.seen_serial) {
      slot.seen_serial = serial;
      slot.seen_seconds = 0;
      return;
    }
    slot.seen_seconds += seconds;
    const auto& limit = component->kind == "dataset" ? limits_.data : limits_.other;
    if (limit && slot.seen_seconds >= limit->count() && !stuck) {
      stuck = StuckCall{.component = component,
                        .function = slot.function.load(std::memory_order_relaxed),
                        .event = slot.event.load(std::memory_order_relaxed),
                        .seconds = slot.seen_seconds};
    }
  });
  return stuck;
}

}  // namespace tenon
