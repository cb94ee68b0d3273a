// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/schedule.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a schedule is due at each multiple of its number", "[recipe]") {
  const Schedule every{.steps = 3};
  std::string due;
  for (std::uint64_t step = 0; step <= 10; ++step) {
    due += every.is_due(ScheduleUnit::kStep, step) ? std::to_string(step) + " " : "";
  }
  CHECK(due == "3 6 9 ");
}

TEST_CASE("each unit of a schedule counts for itself", "[recipe]") {
  const Schedule every{.steps = 2, .windows = 3, .epochs = 5};
  CHECK(every.is_due(ScheduleUnit::kStep, 4));
  CHECK_FALSE(every.is_due(ScheduleUnit::kStep, 3));
  CHECK(every.is_due(ScheduleUnit::kWindow, 3));
  CHECK_FALSE(every.is_due(ScheduleUnit::kWindow, 4));
  CHECK(every.is_due(ScheduleUnit::kEpoch, 5));
  CHECK_FALSE(every.is_due(ScheduleUnit::kEpoch, 4));
}

TEST_CASE("a schedule of zeros is never due", "[recipe]") {
  const Schedule never;
  CHECK(never.is_never());
  CHECK_FALSE(never.is_due(ScheduleUnit::kStep, 0));
  CHECK_FALSE(never.is_due(ScheduleUnit::kStep, 1));
  CHECK_FALSE(never.is_due(ScheduleUnit::kWindow, 1));
  CHECK_FALSE(never.is_due(ScheduleUnit::kEpoch, 1));
  CHECK_FALSE(Schedule{.steps = 1}.is_never());
  CHECK_FALSE(Schedule{.windows = 1}.is_never());
  CHECK_FALSE(Schedule{.epochs = 1}.is_never());
}

TEST_CASE("nothing is due before the first unit is complete", "[recipe]") {
  const Schedule every{.steps = 1, .windows = 1, .epochs = 1};
  CHECK_FALSE(every.is_due(ScheduleUnit::kStep, 0));
  CHECK_FALSE(every.is_due(ScheduleUnit::kWindow, 0));
  CHECK_FALSE(every.is_due(ScheduleUnit::kEpoch, 0));
}

TEST_CASE("units have names", "[recipe]") {
  CHECK(std::string(unit_name(ScheduleUnit::kStep)) == "step");
  CHECK(std::string(unit_name(ScheduleUnit::kWindow)) == "window");
  CHECK(std::string(unit_name(ScheduleUnit::kEpoch)) == "epoch");
}

}  // namespace tenon
