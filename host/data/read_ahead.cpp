// SPDX-License-Identifier: Apache-2.0

#include "host/data/read_ahead.hpp"

#include "host/tensor/trace_span.hpp"

#include <algorithm>
#include <pthread.h>
#include <shared_mutex>
#include <utility>

namespace tenon {

ReadAhead::ReadAhead(ReadPlan& plan, const ReadAheadOptions& options)
    : plan_(plan),
      is_threaded_(options.num_threads > 0),
      depth_(is_threaded_ ? static_cast<size_t>(std::max(options.depth, options.num_threads)) : 1) {
  if (is_threaded_) {
    const std::lock_guard lock(mutex_);
    fill();
  }
  for (int i = 0; i < options.num_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run_thread(stop); });
    // For debuggers and profilers; a failure to set the name is harmless.
    pthread_setname_np(threads_.back().native_handle(), "tenon-loader");
  }
}

ReadAhead::~ReadAhead() {
  // Stop all threads before joining any, so that none starts another read.
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
}

std::optional<FinishedRead> ReadAhead::take() {
  std::unique_lock lock(mutex_);
  while (!has_ended_) {
    if (turns_.empty()) {
      wake(fill());
      if (turns_.empty()) {
        break;
      }
    }
    Turn& front = *turns_.front();
    if (!is_threaded_ && front.state == State::kWaiting) {
      run(front, lock);
    }
    is_done_.wait(lock, [&] { return front.state == State::kDone || front.state == State::kVoid; });
    const std::unique_ptr<Turn> turn = std::move(turns_.front());
    turns_.pop_front();
    if (turn->state == State::kDone) {
      --num_done_;
      has_ended_ = turn->read.failure != nullptr;
      // Idle threads are woken for several reads at once: waking one for each result would take
      // longer in a short step than the read itself. Threads that cannot keep up never sleep.
      const size_t num_asked = is_threaded_ && num_done_ <= depth_ / 2 ? fill() : 0;
      lock.unlock();  // a thread that wakes up while the lock is held sleeps again
      wake(num_asked);
      return std::move(turn->read);
    }
  }
  return std::nullopt;
}

void ReadAhead::run_thread(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (Turn* const turn = startable()) {
      run(*turn, lock);
    } else {
      may_start_.wait(lock, stop, [&] { return startable() != nullptr; });
    }
  }
}

// Requests reads from the plan while there is room and none has failed. Returns their number.
size_t ReadAhead::fill() {
  size_t num_asked = 0;
  for (; !has_failed_ && turns_.size() < depth_; ++num_asked) {
    const std::optional<ReadRequest> request = plan_.next();
    if (!request) {
      break;
    }
    turns_.push_back(std::make_unique<Turn>());
    turns_.back()->read.request = *request;
  }
  return num_asked;
}

void ReadAhead::wake(size_t num_reads) {
  for (size_t i = 0; i < std::min(num_reads, threads_.size()); ++i) {
    may_start_.notify_one();
  }
}

// Returns the first waiting read whose lane has no earlier unfinished read, or null.
ReadAhead::Turn* ReadAhead::startable() {
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    if ((*turn)->state == State::kDone && (*turn)->read.failure != nullptr) {
      return nullptr;  // reads after a failure are never taken
    }
    const uint32_t lane = (*turn)->read.request.lane;
    const bool is_lane_free =
        lane == kNoLane || std::none_of(turns_.begin(), turn, [&](const auto& before) {
          return before->read.request.lane == lane &&
                 (before->state == State::kWaiting || before->state == State::kRunning);
        });
    if ((*turn)->state == State::kWaiting && is_lane_free) {
      return turn->get();
    }
  }
  return nullptr;
}

size_t read_ahead_depth(size_t depth, size_t batch_bytes) {
  return batch_bytes == 0
             ? depth
             : std::max(depth, std::min(kSmallBytes / batch_bytes, kMostTimesDepth * depth));
}

// Sets the final depth by the size of the first batch that has tensors.
void ReadAhead::deepen(const Batch& batch) {
  const size_t bytes = batch.num_bytes();
  if (bytes == 0) {
    return;
  }
  depth_ = read_ahead_depth(depth_, bytes);
  is_depth_final_ = true;
}

// Makes one read with the lock released. The turn stays in place, since only done turns are taken.
void ReadAhead::run(Turn& turn, std::unique_lock<std::mutex>& lock) {
  turn.state = State::kRunning;
  lock.unlock();
  {
    const auto traced = is_threaded_ ? begin_traced_work() : std::shared_lock<std::shared_mutex>();
    const TraceSpan span("read");
    try {
      turn.read.result = plan_.read(turn.read.request);
    } catch (...) {
      turn.read.failure = std::current_exception();
    }
  }
  lock.lock();
  turn.state = State::kDone;
  ++num_done_;
  if (is_threaded_ && !is_depth_final_ && turn.read.result.batch.has_value()) {
    deepen(*turn.read.result.batch);
  }
  const bool has_failed = turn.read.failure != nullptr;
  has_failed_ = has_failed_ || has_failed;
  const uint32_t lane = turn.read.request.lane;
  if (lane != kNoLane && (has_failed || turn.read.result.has_ended_lane)) {
    plan_.end_lane(lane);
    for (const std::unique_ptr<Turn>& later : turns_) {
      if (later->read.request.lane == lane && later->state == State::kWaiting) {
        later->state = State::kVoid;
      }
    }
  }
  is_done_.notify_one();
  may_start_.notify_one();  // the next read of this lane may be waiting for this one
}

}  // namespace tenon
