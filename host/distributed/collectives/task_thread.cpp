// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/task_thread.hpp"

#include <utility>

namespace tenon {

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void TaskThread::start() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { work(); });
  }
}

void TaskThread::push(std::function<void()> task) {
  start();
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool TaskThread::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

void TaskThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || !tasks_.empty(); });
    if (is_over_) {
      return;
    }
    std::function<void()> task = std::move(tasks_.front());
    lock.unlock();
    task();
    task = nullptr;  // releases the objects that it keeps alive
    lock.lock();
    tasks_.pop_front();
  }
}

}  // namespace tenon
