// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/task_thread.hpp"

#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/no_threads.hpp"

namespace tenon {
namespace {

void wait_until_idle(TaskThread& thread) {
  while (!thread.is_idle()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("tasks run in order", "[distributed]") {
  std::vector<int> done;
  TaskThread thread;
  CHECK(thread.is_idle());
  for (int i = 0; i < 5; ++i) {
    thread.push([&done, i] { done.push_back(i); });
  }
  wait_until_idle(thread);
  CHECK(done == std::vector<int>{0, 1, 2, 3, 4});
}

// Whoever waits until it is idle would otherwise wait forever for a task that no thread runs.
TEST_CASE("a task whose thread is refused is not added", "[distributed]") {
  bool is_done = false;
  TaskThread thread;
  {
    const NoThreads none;
    CHECK_THROWS_AS(thread.push([] {}), std::system_error);
    CHECK(thread.is_idle());
  }
  thread.push([&is_done] { is_done = true; });
  wait_until_idle(thread);
  CHECK(is_done);
}

}  // namespace tenon
