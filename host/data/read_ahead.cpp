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
    // For debuggers and profilers; a name that cannot be set harms nobody.
    pthread_setname_np(threads_.back().native_handle(), "tenon-loader");
  }
}

ReadAhead::~ReadAhead() {
  // All of them first: a thread that is still to be joined must not begin another read.
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
}

std::optional<FinishedRead> ReadAhead::take() {
  std::unique_lock lock(mutex_);
  while (!has_ended_) {
    if (turns_.empty()) {
      fill();
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
      has_ended_ = turn->has_failed;
      if (is_threaded_) {
        fill();
      }
      return FinishedRead{.request = turn->request,
                          .has_batch = turn->has_batch,
                          .has_failed = turn->has_failed,
                          .result = turn->task.get_future()};
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

// Asks the plan for reads while there is room, until one has failed.
void ReadAhead::fill() {
  while (!has_failed_ && turns_.size() < depth_) {
    const std::optional<ReadRequest> request = plan_.next();
    if (!request) {
      return;
    }
    turns_.push_back(std::make_unique<Turn>());
    Turn& turn = *turns_.back();
    turn.request = *request;
    turn.task = std::packaged_task<ReadResult()>([this, &turn] {
      ReadResult result = plan_.read(turn.request);
      turn.has_batch = result.batch.has_value();
      turn.has_ended_lane = result.has_ended_lane;
      turn.has_failed = false;
      return result;
    });
    may_start_.notify_one();
  }
}

// The first read that waits, unless a read of its lane that comes before it is still to be made.
ReadAhead::Turn* ReadAhead::startable() {
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    if ((*turn)->state == State::kDone && (*turn)->has_failed) {
      return nullptr;  // nobody will see what comes after it
    }
    const uint32_t lane = (*turn)->request.lane;
    const bool is_lane_free =
        lane == kNoLane || std::none_of(turns_.begin(), turn, [&](const auto& before) {
          return before->request.lane == lane &&
                 (before->state == State::kWaiting || before->state == State::kRunning);
        });
    if ((*turn)->state == State::kWaiting && is_lane_free) {
      return turn->get();
    }
  }
  return nullptr;
}

// Makes one read with the lock released. The turn stays in its place: only what is done is taken.
void ReadAhead::run(Turn& turn, std::unique_lock<std::mutex>& lock) {
  turn.state = State::kRunning;
  lock.unlock();
  {
    const auto traced = is_threaded_ ? begin_traced_work() : std::shared_lock<std::shared_mutex>();
    const TraceSpan span("read");
    turn.task();
  }
  lock.lock();
  turn.state = State::kDone;
  has_failed_ = has_failed_ || turn.has_failed;
  const uint32_t lane = turn.request.lane;
  if (lane != kNoLane && turn.has_ended_lane) {
    plan_.end_lane(lane);
    for (const std::unique_ptr<Turn>& later : turns_) {
      if (later->request.lane == lane && later->state == State::kWaiting) {
        later->state = State::kVoid;
      }
    }
  }
  is_done_.notify_one();
  may_start_.notify_one();  // the next read of this lane may be waiting for this one
}

}  // namespace tenon
