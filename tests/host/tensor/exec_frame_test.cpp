// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/exec_frame.hpp"

#include "host/tensor/stop_flag.hpp"

#include <set>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the seed of a call depends on where it is, and on nothing else", "[tensor]") {
  ExecBase base;
  base.seed = 5;
  ExecFrame a(nullptr, base);
  ExecFrame b(nullptr, base);
  std::set<uint64_t> seeds;
  for (const uint64_t step : {1u, 2u}) {
    for (const uint32_t microbatch : {0u, 1u}) {
      for (const bool is_train : {true, false}) {
        a.move_to({step, microbatch, is_train});
        b.move_to({9, 9, true});
        b.move_to({step, microbatch, is_train});
        for (const uint32_t block : {0u, 1u}) {
          const uint64_t seed = a.seed_for(block);
          CHECK(seed == b.seed_for(block));
          CHECK(a.exec().seed == seed);
          seeds.insert(seed);
        }
      }
    }
  }
  CHECK(seeds.size() == 16);
}

TEST_CASE("ranks with other random streams draw different numbers", "[tensor]") {
  const auto seed_of = [](uint64_t random_stream) {
    ExecBase base;
    base.random_stream = random_stream;
    ExecFrame frame(nullptr, base);
    frame.move_to({1, 0, true});
    return frame.seed_for(0);
  };
  CHECK(seed_of(0) == seed_of(0));
  CHECK(seed_of(1) != seed_of(0));
  CHECK(seed_of(2) != seed_of(1));
}

TEST_CASE("a call learns its mode and whether the run is to stop", "[tensor]") {
  ExecFrame frame(nullptr, {});
  frame.move_to({1, 0, true});
  CHECK(frame.exec().mode == TENON_MODE_TRAIN);
  frame.move_to({1, 0, false});
  CHECK(frame.exec().mode == TENON_MODE_EVALUATE);
  CHECK(frame.exec().stop_requested(&frame.exec()) == 0);
  set_stop_requested(true);
  CHECK(frame.exec().stop_requested(&frame.exec()) == 1);
  CHECK(frame.exec().stop_requested(nullptr) == 0);
  set_stop_requested(false);
}

}  // namespace tenon
