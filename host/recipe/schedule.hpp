// SPDX-License-Identifier: Apache-2.0
//
// When something of a run repeats: every N steps, windows or epochs.
// Threads: every function may be called from any thread.
#pragma once

#include <cstdint>

namespace tenon {

enum class ScheduleUnit { kStep, kWindow, kEpoch };

// "step", "window" or "epoch".
const char* unit_name(ScheduleUnit unit);

// The units are independent: an event is due if any of them says so. 0 is never.
struct Schedule {
  std::int64_t steps = 0;
  std::int64_t windows = 0;
  std::int64_t epochs = 0;

  // Whether the event is due after the unit that made `completed` of them. Never due at 0.
  bool is_due(ScheduleUnit unit, std::uint64_t completed) const;

  // Whether no unit ever makes the event due.
  bool is_never() const;

  bool operator==(const Schedule&) const = default;
};

}  // namespace tenon
