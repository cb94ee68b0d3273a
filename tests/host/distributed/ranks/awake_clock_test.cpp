// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/awake_clock.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

using std::chrono::hours;
using std::chrono::milliseconds;

// docker pause, SIGSTOP of all ranks, a frozen virtual machine: no rank is slow then.
TEST_CASE("time in which the process was suspended does not count", "[distributed]") {
  const GapRemover::Time start{};
  GapRemover gaps(start);
  for (int i = 1; i <= 10; ++i) {
    gaps.look(start + i * milliseconds(100));
  }
  CHECK(gaps.time_at(start + milliseconds(1050)) == start + milliseconds(1050));
  const auto resumed = start + hours(5);
  const auto before = gaps.time_at(resumed);  // a thread that runs before the look
  CHECK(before == start + milliseconds(1000) + GapRemover::kLongest);
  gaps.look(resumed);
  CHECK(gaps.time_at(resumed) == before);
  CHECK(gaps.time_at(resumed + milliseconds(300)) == before + milliseconds(300));
}

TEST_CASE("the clock never goes back, and a wait ends when its condition holds", "[distributed]") {
  const auto first = AwakeClock::now();
  CHECK(AwakeClock::now() >= first);
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  CHECK(AwakeClock::wait_until(changed, lock, first + hours(1), [] { return true; }));
  CHECK_FALSE(AwakeClock::wait_until(changed, lock, first, [] { return false; }));
}

}  // namespace tenon
