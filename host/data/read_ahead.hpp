// SPDX-License-Identifier: Apache-2.0
//
// Makes the reads of a plan ahead of their use, on its own threads, and hands the results out in
// the plan's order. It does not look into batches and keeps no position.
// Invariants: results come in the same order for any number of threads; never more than `depth`
// reads are under way or waiting to be taken; the destructor returns when the reads that were under
// way have returned, and no read begins after that.
// Threads: constructed, used and destroyed by one thread; those inside are its own business.

#pragma once

#include "host/data/read_plan.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace tenon {

struct ReadAheadOptions {
  int num_threads = 0;  // 0: reads are made by take(), when they are asked for
  int depth = 1;        // results read ahead; at least one a thread is taken
};

// A read that has been made, or has failed.
struct FinishedRead {
  ReadRequest request;
  ReadResult result;
  std::exception_ptr failure;  // what the read threw; `result` is empty then
};

class ReadAhead {
 public:
  // Starts reading. `plan` is borrowed and outlives this.
  ReadAhead(ReadPlan& plan, const ReadAheadOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next read of the plan, waiting for it if need be; none at the plan's end. A failed read is
  // handed out at its place, and after the first one no further read is begun: the plan ends there.
  std::optional<FinishedRead> take();

 private:
  enum class State { kWaiting, kRunning, kDone, kVoid };
  struct Turn {
    FinishedRead read;
    State state = State::kWaiting;
  };

  void run_thread(const std::stop_token& stop);
  size_t fill();
  void wake(size_t num_reads);
  Turn* startable();
  void run(Turn& turn, std::unique_lock<std::mutex>& lock);

  ReadPlan& plan_;
  const bool is_threaded_;
  const size_t depth_;
  std::mutex mutex_;  // guards all below but the threads, and the plan's next() and end_lane()
  std::condition_variable_any may_start_;
  std::condition_variable is_done_;
  std::deque<std::unique_ptr<Turn>> turns_;  // in the plan's order; the front is taken next
  size_t num_done_ = 0;                      // of turns_
  bool has_failed_ = false;                  // some read has; those before it are still to be taken
  bool has_ended_ = false;                   // the failed read has been taken
  std::vector<std::jthread> threads_;        // last: joined before anything that they use goes
};

}  // namespace tenon
