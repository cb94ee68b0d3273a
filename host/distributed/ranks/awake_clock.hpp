// SPDX-License-Identifier: Apache-2.0
//
// A clock for time limits of waits for other ranks. It does not count time in which this process
// did not run: docker pause, a frozen virtual machine and SIGSTOP suspend all ranks, and none of
// them is slow then.
// Threads: any.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tenon {

// Removes gaps from a series of times. A separate class for tests.
class GapRemover {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A thread that looks more often than that was suspended in a longer gap, or had no processor.
  static constexpr std::chrono::milliseconds kLongest{1000};

  explicit GapRemover(Time start) : last_(start) {}

  // Returns `now` without gaps. At most kLongest counts of the time since the last look.
  Time time_at(Time now) const { return std::min(now, last_ + kLongest) - removed_; }
  // Call it several times within kLongest. Never moves time_at() back.
  void look(Time now) {
    removed_ += std::max(now - last_ - kLongest, Time::duration::zero());
    last_ = now;
  }

 private:
  Time last_;
  Time::duration removed_{0};
};

// Its times have the type of steady_clock's, but are not to be passed to functions that wait until
// a time: these do not know the gaps.
class AwakeClock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  static time_point now();

  // Waits for `condition` until `end`. Returns false if the time is over.
  template <class Condition>
  static bool wait_until(std::condition_variable& changed,
                         std::unique_lock<std::mutex>& lock,
                         time_point end,
                         Condition condition) {
    while (!condition()) {
      const duration left = end - now();
      if (left <= duration::zero()) {
        return false;
      }
      changed.wait_for(lock, left, condition);
    }
    return true;
  }
};

}  // namespace tenon
