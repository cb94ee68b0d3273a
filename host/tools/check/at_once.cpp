// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/at_once.hpp"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tenon {

void run_at_once(std::size_t num_threads, const std::function<void(std::size_t)>& body) {
  std::vector<std::exception_ptr> errors(num_threads);
  std::atomic<std::size_t> num_ready = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([&, i] {
        // All begin together, so that short calls overlap too.
        ++num_ready;
        while (num_ready < num_threads) {
          std::this_thread::yield();
        }
        try {
          body(i);
        } catch (...) {  // thrown again below, by the thread that waits
          errors[i] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }
}

}  // namespace tenon
