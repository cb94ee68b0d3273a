// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_time.hpp"

#include "host/train/plan/rank_plan.hpp"

#include "tests/host/train/plan/plan_chain.hpp"
#include "tests/host/train/plan/random_subject.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Seconds to gather or reduce a group over two ranks of one machine.
double transfer_seconds(const PlanSubject& subject, size_t g) {
  return static_cast<double>(subject.groups[g].flat_numel(2) * 4 / 2) / kMachine.bandwidth_node +
         kMachine.latency;
}

Approx about_seconds(double seconds) {
  return Approx(seconds).epsilon(1e-9);
}

}  // namespace

TEST_CASE("all blocks of a unit hide the gather of the next one, worked out by hand", "[model]") {
  // Blocks 0 and 1 are a unit of 1 ms and 2 ms. While it computes, the parameters of block 2 travel
  // for 2.5 ms: longer than either block, and shorter than both.
  PlanSubject subject = chain({{100, cost_of(1e9, 1000, 3000, 700)},
                               {5000, cost_of(2e9, 2000, 5000, 21'000)},
                               {1'250'304, cost_of(4e9, 4000, 100, 300)}});
  subject.graph.blocks[0].unit = subject.graph.blocks[1].unit = "u";
  subject.groups = lay_out_groups(subject.graph, {});
  REQUIRE(subject.groups.size() == 2);
  REQUIRE(transfer_seconds(subject, 1) > 2.4e-3);
  REQUIRE(transfer_seconds(subject, 1) < 2.9e-3);
  const PlanTime time = plan_rank(subject, {.shard = 2}, kMachine).time;
  CHECK(time.compute == about_seconds(0.021));
  // Block 2 stays after its forward. Its reduction travels beside the 6 ms of the unit's backward.
  // Only the first gather and the last reduction are not hidden.
  CHECK(time.exposed == about_seconds(2 * transfer_seconds(subject, 0)));
  CHECK(time.communication ==
        about_seconds(3 * transfer_seconds(subject, 0) + 2 * transfer_seconds(subject, 1)));
}

TEST_CASE("a transfer that takes longer than its cover makes the computation wait", "[model]") {
  // Block 1 travels for 20 ms, twice before it is needed; block 0 covers 1 ms in forward, and block
  // 2 covers 8 ms in backward. Its reduction ends after block 0's backward of 2 ms, and then that
  // of block 0 travels.
  PlanSubject subject = chain({{64, cost_of(1e9, 1000, 0, 0)},
                               {10'000'384, cost_of(2e9, 2000, 0, 0)},
                               {64, cost_of(4e9, 4000, 0, 0)}});
  const double small = transfer_seconds(subject, 0);
  const double large = transfer_seconds(subject, 1);
  REQUIRE(large > 0.02);
  const PlanTime time = plan_rank(subject, {.shard = 2}, kMachine).time;
  // Forward: gathers of blocks 0 and 1 follow each other, and block 2's is hidden.
  const double forward = small + large + 2e-3 + 4e-3;
  // Backward: block 1's gather begins with the backward of block 2. On the lane, the reduction of
  // block 2 precedes the gather of block 0, which begins with the backward of block 1.
  const double backward = large + 4e-3 + large + small;
  CHECK(time.step == about_seconds(forward + backward));
}

TEST_CASE("microbatches between the first and the last take the same time", "[model]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomPlan plan = random_plan(seed);
    const auto time_of = [&](int64_t microbatches) {
      plan.subject.microbatches = microbatches;
      return plan_rank(plan.subject, plan.choice, kRandomMachine).time;
    };
    const PlanTime three = time_of(3);
    const PlanTime four = time_of(4);
    const PlanTime ten = time_of(10);
    CHECK(ten.compute == about_seconds(three.compute / 3 * 10));
    CHECK(ten.flops == about_seconds(three.flops / 3 * 10));
    CHECK(ten.recompute == about_seconds(three.recompute / 3 * 10));
    CHECK(ten.step == about_seconds(three.step + 7 * (four.step - three.step)));
    CHECK(ten.communication ==
          about_seconds(three.communication + 7 * (four.communication - three.communication)));
    CHECK(three.step >= three.compute - 1e-12);
    CHECK(three.step <= three.compute + three.communication + 1e-12);
  }
}

}  // namespace tenon
