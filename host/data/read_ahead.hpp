// SPDX-License-Identifier: Apache-2.0
//
// Makes the reads of a plan in advance, on separate threads, and returns the results in the order
// of the plan. Keeps no position.
// Invariants: results come in the same order for any number of threads; at most `depth` reads are
// running or waiting to be taken, or at most four times as many of small batches; the destructor
// returns after running reads have returned, and no read starts later.
// Threads: constructed, used and destroyed by one thread; the reading threads are internal.

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
  int num_threads = 0;  // 0: take() makes reads on demand
  int depth = 1;        // results read ahead; raised to at least one per thread
};

// Batches of at most this size in total are read further ahead than `depth`, up to
// kMostTimesDepth times. Waking a thread takes longer than reading a small batch, and is then done
// once for several of them.
inline constexpr size_t kSmallBytes = size_t{256} << 10;
inline constexpr size_t kMostTimesDepth = 4;

// Returns the depth for batches of this size, in bytes, if `depth` is asked for.
size_t read_ahead_depth(size_t depth, size_t batch_bytes);

// A read that has succeeded or failed.
struct FinishedRead {
  ReadRequest request;
  ReadResult result;
  std::exception_ptr failure;  // exception of the read; `result` is then empty
};

class ReadAhead {
 public:
  // Starts reading. `plan` is borrowed and outlives this object.
  ReadAhead(ReadPlan& plan, const ReadAheadOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Returns the next read of the plan, waiting if necessary, or nothing at the end of the plan. A
  // failed read is returned in its place. After the first failure no further read starts, and the
  // plan ends there.
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
  void deepen(const Batch& batch);
  void run(Turn& turn, std::unique_lock<std::mutex>& lock);

  ReadPlan& plan_;
  const bool is_threaded_;
  std::mutex mutex_;  // guards members below except threads_, and the plan's next() and end_lane()
  std::condition_variable_any may_start_;
  std::condition_variable is_done_;
  std::deque<std::unique_ptr<Turn>> turns_;  // in the order of the plan; the front is taken next
  size_t num_done_ = 0;                      // of turns_
  size_t depth_;                             // most entries of turns_
  bool is_depth_final_ = false;
  bool has_failed_ = false;            // a read has failed; earlier reads can still be taken
  bool has_ended_ = false;             // the failed read has been taken
  std::vector<std::jthread> threads_;  // last: joined before other members are destroyed
};

}  // namespace tenon
