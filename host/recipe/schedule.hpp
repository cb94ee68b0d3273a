// SPDX-License-Identifier: Apache-2.0
//
// How often an event of a run repeats: every N steps, windows or epochs.
// Threads: every function may be called from any thread.
#pragma once

#include <cstdint>

namespace tenon {

enum class ScheduleUnit { kStep, kWindow, kEpoch };

// Returns "step", "window" or "epoch".
const char* unit_name(ScheduleUnit unit);

// An event is due if any of the three intervals makes it due. 0: never.
struct Schedule {
  std::int64_t steps = 0;
  std::int64_t windows = 0;
  std::int64_t epochs = 0;

  // Returns whether the event is due once `completed` units are done. It is never due at 0.
  bool is_due(ScheduleUnit unit, std::uint64_t completed) const;

  // Returns whether the event is never due.
  bool is_never() const;

  bool operator==(const Schedule&) const = default;
};

}  // namespace tenon
