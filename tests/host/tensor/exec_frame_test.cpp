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

TEST_CASE("data ranks draw different numbers, tensor ranks the same", "[tensor]") {
  const auto seed_at = [](uint32_t dimension) {
    tenon_mesh mesh{};
    for (auto& size : mesh.size) {
      size = 1;
    }
    mesh.size[dimension] = 2;
    mesh.coordinate[dimension] = 1;
    ExecBase base;
    base.mesh = &mesh;
    ExecFrame frame(nullptr, base);
    frame.move_to({1, 0, true});
    return frame.seed_for(0);
  };
  ExecFrame alone(nullptr, ExecBase{});
  alone.move_to({1, 0, true});
  const uint64_t seed = alone.seed_for(0);
  CHECK(seed_at(TENON_MESH_SHARD) != seed);
  CHECK(seed_at(TENON_MESH_REPLICATE) != seed);
  CHECK(seed_at(TENON_MESH_TENSOR) == seed);
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
