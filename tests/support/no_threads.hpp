// SPDX-License-Identifier: Apache-2.0
//
// A system that refuses threads, for tests of what then happens.
#pragma once

#include <cstddef>
#include <pthread.h>

#include "tests/support/catch.hpp"

namespace tenon {

// While it lives, no thread of this process can be started: their stacks are larger than the
// address space.
class NoThreads {
 public:
  NoThreads() {
    REQUIRE(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(pthread_attr_init(&huge) == 0);
    REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 47) == 0);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace tenon
