// SPDX-License-Identifier: Apache-2.0
#include "host/train/update_guard.hpp"

#include <ATen/Functions.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string here() {
  return "it arose here";
}

void record(UpdateGuard& guard, uint64_t first, uint64_t last, bool is_finite) {
  for (uint64_t step = first; step <= last; ++step) {
    guard.record(step, is_finite, here);
  }
}

}  // namespace

TEST_CASE("skipped updates end a run among the first ten, and where too many follow each other",
          "[train]") {
  UpdateGuard early({NonFinitePolicy::kSkip, 3});
  early.record(10, false, here);
  REQUIRE(early.failure().has_value());
  CHECK(early.failure()->id() == "train.non_finite");
  CHECK(early.failure()->exit_code() == ExitCode::kNonFinite);
  CHECK_THAT(early.failure()->what(), contains_text("step 10"));
  CHECK_THAT(early.failure()->what(), contains_text("it arose here"));

  UpdateGuard guard({NonFinitePolicy::kSkip, 3});
  record(guard, 1, 10, true);
  record(guard, 11, 12, false);
  record(guard, 13, 13, true);
  record(guard, 14, 15, false);
  CHECK_FALSE(guard.failure().has_value());
  CHECK(guard.count().steps == 4);
  CHECK(guard.count().longest_streak == 2);
  CHECK(guard.count().last_step == 15);
  record(guard, 16, 16, false);
  REQUIRE(guard.failure().has_value());
  CHECK_THAT(guard.failure()->what(), contains_text("3 consecutive updates"));
}

TEST_CASE("`stop` ends at the first, `ignore` never, and asks for the origin once in a row",
          "[train]") {
  UpdateGuard stop({NonFinitePolicy::kStop, 10});
  stop.record(500, false, here);
  CHECK(stop.failure().has_value());
  UpdateGuard ignore({NonFinitePolicy::kIgnore, 1});
  CHECK(ignore.is_exempt());
  int asked = 0;
  for (uint64_t step = 1; step <= 20; ++step) {
    ignore.record(step, step == 10, [&] {
      ++asked;
      return std::string("here");
    });
  }
  CHECK(asked == 2);
  CHECK(ignore.count().steps == 19);
  CHECK_FALSE(ignore.failure().has_value());
}

TEST_CASE("it knows where a row of left out updates began", "[train]") {
  UpdateGuard guard({NonFinitePolicy::kSkip, 3});
  CHECK_FALSE(guard.streak_begin().has_value());
  record(guard, 1, 12, true);
  record(guard, 13, 14, false);
  CHECK(guard.streak_begin() == 13);
  StateTree tree;
  guard.snapshot(tree, "guard");
  record(guard, 15, 15, true);
  CHECK_FALSE(guard.streak_begin().has_value());
  record(guard, 16, 18, false);
  record(guard, 19, 19, true);  // a device tells late
  REQUIRE(guard.failure().has_value());
  CHECK(guard.streak_begin() == 16);
  guard.load(tree, "guard");  // the run has gone back
  CHECK_FALSE(guard.failure().has_value());
  CHECK(guard.streak_begin() == 13);
  UpdateGuard ignore({NonFinitePolicy::kIgnore, 1});
  record(ignore, 1, 3, false);
  CHECK_FALSE(ignore.streak_begin().has_value());
}

TEST_CASE("what a device says later counts for the steps that it is of", "[train]") {
  UpdateGuard guard({NonFinitePolicy::kSkip, 3});
  const auto found = [](float value) { return at::scalar_tensor(value, at::kFloat); };
  for (uint64_t step = 11; step <= 20; ++step) {
    guard.record_later(step, found(step == 12 || step == 13 || step == 20 ? 1 : 0), here);
    CHECK_FALSE(guard.is_sync_due());
  }
  CHECK(guard.count().steps == 0);
  CHECK(guard.sync() == 3);
  CHECK(guard.sync() == 0);
  CHECK(guard.count().longest_streak == 2);
  CHECK(guard.count().last_step == 20);
  CHECK(guard.is_sync_due());  // the last one was not finite: time to look closely
  CHECK_FALSE(guard.failure().has_value());
}

}  // namespace tenon
