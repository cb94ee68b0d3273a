// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs tasks in order. The first task starts the thread.
// Invariant: the destructor waits for the current task, and drops tasks that have not started.
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

  // Starts the thread if it does not run yet.
  //
  // Errors   std::system_error if the system refuses a thread
  void start();
  // Adds a task, which must not throw.
  //
  // Errors   std::system_error if the thread cannot be started; the task is not added then
  void push(std::function<void()> task);
  // Returns true if all tasks are finished.
  bool is_idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the current task is the first
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tenon
