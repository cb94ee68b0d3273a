// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/retention.hpp"

#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

// One checkpoint each hundred steps, with these metrics.
std::vector<KeptCheckpoint> hundreds(const std::vector<std::optional<double>>& metrics) {
  std::vector<KeptCheckpoint> kept;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const auto step = static_cast<int64_t>(100 * (i + 1));
    kept.push_back({.name = std::to_string(step), .step = step, .metric = metrics[i]});
  }
  return kept;
}

}  // namespace

TEST_CASE("the last checkpoints stay, oldest ones go first", "[checkpoint]") {
  const auto kept = hundreds({{}, {}, {}, {}, {}});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 3}) == Names{"100", "200"});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1}) == Names{"100", "200", "300", "400"});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 5}).empty());
  CHECK(checkpoints_to_remove(kept, {.keep_last = 9}).empty());
  CHECK(checkpoints_to_remove({}, {.keep_last = 1}).empty());
}

TEST_CASE("with keep_last 0 all checkpoints stay", "[checkpoint]") {
  const auto kept = hundreds({1.0, 2.0, 3.0});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 0, .keep_every_steps = 200, .keep_best = 1})
            .empty());
}

TEST_CASE("checkpoints at a multiple of keep_every_steps stay, that of step 0 too",
          "[checkpoint]") {
  auto kept = hundreds({{}, {}, {}, {}, {}, {}});
  kept.insert(kept.begin(), {.name = "0", .step = 0});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1, .keep_every_steps = 200}) ==
        Names{"100", "300", "500"});
}

TEST_CASE("the best checkpoints stay, by the smallest or the largest metric", "[checkpoint]") {
  const auto kept = hundreds({3.0, 1.0, 4.0, 1.5, 9.0, 2.6});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1, .keep_best = 2}) ==
        Names{"100", "300", "500"});
  CHECK(
      checkpoints_to_remove(kept, {.keep_last = 1, .keep_best = 2, .best_mode = BestMode::kMax}) ==
      Names{"100", "200", "400"});
}

TEST_CASE("a metric that is not there or not a number is never the best", "[checkpoint]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto kept = hundreds({nan, {}, infinity, 5.0, nan});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1, .keep_best = 1}) ==
        Names{"100", "200", "300"});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1, .keep_best = 9}) == Names{"100", "200"});
}

TEST_CASE("of checkpoints with one metric the newer is the better", "[checkpoint]") {
  const auto kept = hundreds({2.0, 2.0, 2.0, 7.0});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1, .keep_best = 1}) == Names{"100", "200"});
}

TEST_CASE("a pinned checkpoint stays, and takes nobody's place", "[checkpoint]") {
  auto kept = hundreds({{}, {}, {}, {}});
  kept[0].is_pinned = true;
  CHECK(checkpoints_to_remove(kept, {.keep_last = 2}) == Names{"200"});
}

TEST_CASE("where a place has no checksum, both orders must select what is removed",
          "[checkpoint]") {
  const auto at = [](const char* name, int64_t step, const char* time, bool is_order_known) {
    return KeptCheckpoint{
        .name = name, .step = step, .time = time, .is_order_known = is_order_known};
  };
  // A flipped bit moved the checkpoint of step 85 behind the others; then 105 was saved.
  std::vector<KeptCheckpoint> kept = {at("90", 90, "12:02", false),
                                      at("95", 95, "12:03", false),
                                      at("100", 100, "12:04", false),
                                      at("85", 85, "12:01", false),
                                      at("105", 105, "12:05", true)};
  CHECK(checkpoints_to_remove(kept, {.keep_last = 2}) == Names{"90", "95"});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1}) == Names{"90", "95", "100", "85"});
  sort_unknown_order(kept);
  Names sorted;
  for (const KeptCheckpoint& one : kept) {
    sorted.push_back(one.name);
  }
  CHECK(sorted == Names{"85", "90", "95", "100", "105"});
  CHECK(checkpoints_to_remove(kept, {.keep_last = 2}) == Names{"85", "90", "95"});
  // Where all places are known, a clock that was set back does not matter.
  kept = {at("a", 1, "12:09", true), at("b", 2, "12:01", true), at("c", 3, "12:02", true)};
  CHECK(checkpoints_to_remove(kept, {.keep_last = 1}) == Names{"a", "b"});
}

}  // namespace tenon
