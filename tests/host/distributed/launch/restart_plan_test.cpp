// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/restart_plan.hpp"

#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Slots = std::vector<uint32_t>;

bool on_any(uint32_t) {
  return true;
}

// At once after a start, and later in it.
FailedStart at_once(uint32_t rank) {
  return {.rank = rank, .is_before_first_step = true};
}
FailedStart later(uint32_t rank) {
  return {.rank = rank};
}

}  // namespace

TEST_CASE("all ranks are started again, as often as is allowed", "[distributed]") {
  RestartPlan plan({.num_ranks = 3, .max_restarts = 2}, on_any);
  for (const uint32_t restart : {1u, 2u}) {
    CHECK(plan.restart(at_once(1)));
    CHECK(plan.num_restarts() == restart);
    CHECK(plan.slots() == Slots{0, 1, 2});
    CHECK_FALSE(plan.excluded().has_value());
  }
  CHECK_FALSE(plan.restart(at_once(1)));
  RestartPlan none({.num_ranks = 3}, on_any);
  CHECK_FALSE(none.restart(later(1)));
}

TEST_CASE("a rank that fails again at once is left out, and those behind it move up",
          "[distributed]") {
  RestartPlan plan({.num_ranks = 4, .max_restarts = 9, .min_ranks = 2}, on_any);
  CHECK(plan.restart(later(1)));
  CHECK(plan.slots() == Slots{0, 1, 2, 3});
  CHECK(plan.restart(at_once(1)));
  CHECK(plan.excluded() == 1u);
  CHECK(plan.slots() == Slots{0, 2, 3});
  // Rank 1 is now that of slot 2: a failure of it is its first.
  CHECK(plan.restart(at_once(1)));
  CHECK_FALSE(plan.excluded().has_value());
  CHECK(plan.restart(at_once(1)));
  CHECK(plan.excluded() == 2u);
  CHECK(plan.slots() == Slots{0, 3});
  // No fewer than two.
  CHECK(plan.restart(at_once(0)));
  CHECK(plan.restart(at_once(0)));
  CHECK_FALSE(plan.excluded().has_value());
  CHECK(plan.slots() == Slots{0, 3});
  CHECK(plan.num_restarts() == 6);
}

TEST_CASE("a rank is not left out for what happens once, later, to others or to nobody",
          "[distributed]") {
  RestartPlan plan({.num_ranks = 2, .max_restarts = 99, .min_ranks = 1}, on_any);
  for (const FailedStart& failed : {at_once(0),
                                    at_once(1),
                                    at_once(0),
                                    later(0),
                                    later(0),
                                    FailedStart{.is_before_first_step = true},
                                    at_once(0)}) {
    CHECK(plan.restart(failed));
    CHECK(plan.slots() == Slots{0, 1});
  }
}

TEST_CASE("as many ranks go on as the recipe can be trained on, and spare ones come in",
          "[distributed]") {
  // A step of 8 samples, say.
  RestartPlan plan({.num_ranks = 4, .max_restarts = 9, .min_ranks = 1},
                   [](uint32_t ranks) { return 8 % ranks == 0; });
  CHECK(plan.restart(at_once(0)));
  CHECK(plan.restart(at_once(0)));
  CHECK(plan.excluded() == 0u);
  CHECK(plan.slots() == Slots{1, 2});
  CHECK(plan.restart(at_once(1)));
  CHECK(plan.restart(at_once(1)));
  CHECK(plan.excluded() == 2u);
  CHECK(plan.slots() == Slots{1, 3});
  CHECK(plan.restart(at_once(0)));
  CHECK(plan.restart(at_once(0)));
  CHECK(plan.slots() == Slots{3});
}

TEST_CASE("what will fail again starts nothing again, but for a rank that can be left out",
          "[distributed]") {
  FailedStart broken = at_once(1);
  broken.is_for_good = true;
  RestartPlan same({.num_ranks = 2, .max_restarts = 9}, on_any);
  CHECK(same.restart(later(1)));
  CHECK_FALSE(same.restart(broken));
  RestartPlan fewer({.num_ranks = 2, .max_restarts = 9, .min_ranks = 1}, on_any);
  CHECK(fewer.restart(later(1)));
  CHECK(fewer.restart(broken));  // it could train before
  CHECK(fewer.slots() == Slots{0});
  RestartPlan first({.num_ranks = 2, .max_restarts = 9, .min_ranks = 1}, on_any);
  CHECK_FALSE(first.restart(broken));
}

}  // namespace tenon
