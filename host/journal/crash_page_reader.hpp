// SPDX-License-Identifier: Apache-2.0
//
// Writes to the crash page how far the run is: step, event, and the numbers of its journal. The
// crash handler and other processes read the page, also after the process was killed. By `entry`
// and `durable_entry` they see which entries a resumed run may lack.
// Threads: a prompt reader; any.
#pragma once

#include "host/error/crash_page.hpp"
#include "host/journal/entries.hpp"

#include <algorithm>
#include <atomic>

namespace tenon {

class CrashPageReader {
 public:
  // `page` is borrowed.
  explicit CrashPageReader(CrashPage& page) : page_(page) {}

  template <class Entry>
  void read(const Stamp& stamp, const Entry& entry) {
    follow(stamp, entry);
    page_.attempt.store(stamp.number.attempt, std::memory_order_relaxed);
    page_.entry.store(stamp.number.n, std::memory_order_relaxed);
  }

  void read(const EventBegan& event) {
    page_.event.store(event.event + 1, std::memory_order_relaxed);
  }

 private:
  void follow(const Stamp&, const StepBegan& entry) {
    page_.step.store(entry.state.step, std::memory_order_relaxed);
  }
  void follow(const Stamp& stamp, const SaveEnded& entry) {
    if (entry.error.empty() && entry.taken.has_value() &&
        entry.taken->attempt == stamp.number.attempt) {
      page_.durable_entry.store(
          std::max(page_.durable_entry.load(std::memory_order_relaxed), entry.taken->n),
          std::memory_order_relaxed);
    }
  }
  template <class Entry>
  void follow(const Stamp&, const Entry&) {}

  CrashPage& page_;
};

}  // namespace tenon
