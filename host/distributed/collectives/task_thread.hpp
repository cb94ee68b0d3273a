// SPDX-License-Identifier: Apache-2.0
//
// A thread that does what it is given, in order. It is started with the first task.
// Invariant: when it is destroyed, the task under way is finished, and those not begun are dropped.
// Threads: any, for all functions.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon {

class TaskThread {
 public:
  TaskThread() = default;
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Tasks throw nothing.
  void push(std::function<void()> task);
  // True if all tasks are finished.
  bool is_idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the one under way is the first
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tenon
