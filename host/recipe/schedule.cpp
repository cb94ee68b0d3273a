// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/schedule.hpp"

namespace tenon {

const char* unit_name(ScheduleUnit unit) {
  switch (unit) {
    case ScheduleUnit::kStep:
      return "step";
    case ScheduleUnit::kWindow:
      return "window";
    case ScheduleUnit::kEpoch:
      break;
  }
  return "epoch";
}

bool Schedule::is_due(ScheduleUnit unit, std::uint64_t completed) const {
  const std::int64_t every = unit == ScheduleUnit::kStep     ? steps
                             : unit == ScheduleUnit::kWindow ? windows
                                                             : epochs;
  return every > 0 && completed > 0 && completed % static_cast<std::uint64_t>(every) == 0;
}

bool Schedule::is_never() const {
  return steps <= 0 && windows <= 0 && epochs <= 0;
}

}  // namespace tenon
