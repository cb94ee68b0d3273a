// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_update.hpp"

#include <ATen/Functions.h>

#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Ids 7, 9 and 8 of a table of dim 2, of which 9 has no gradient.
StepRows three_rows(std::vector<float> grads) {
  StepRows step;
  LookupIds lookup;
  lookup.ids = at::tensor({7, 9, 7, 8}, at::kLong);
  std::vector<uint32_t> positions;
  step.add(lookup, positions);
  CHECK(positions == std::vector<uint32_t>{0, 1, 0, 2});
  step.rows = {10, 11, 12};
  step.used = {2, 0, 1};
  step.grads = std::move(grads);
  return step;
}

}  // namespace

TEST_CASE("distinct ids count how often each was seen until it is looked up", "[embedding]") {
  StepRows step = three_rows({});
  CHECK(step.seen == std::vector<int64_t>{2, 1, 1});
  CHECK(step.pending == std::vector<uint32_t>{0, 1, 2});
  step.clear();
  CHECK(step.ids.size() == 0);
  CHECK(step.pending.empty());
}

TEST_CASE("an update has the rows with a gradient, scaled", "[embedding]") {
  RowUpdate update;
  update.gather(three_rows({1, 2, 0, 0, -3, 4}), 2, 0.5, std::nullopt);
  CHECK(update.ids == std::vector<int64_t>{7, 8});
  CHECK(update.rows == std::vector<int64_t>{10, 12});
  CHECK(update.counts == std::vector<int64_t>{2, 1});
  CHECK(update.grads == std::vector<float>{0.5F, 1, -1.5F, 2});
  CHECK(update.non_finite.empty());
}

TEST_CASE("a gradient above the norm is scaled down to the norm", "[embedding]") {
  RowUpdate update;
  update.gather(three_rows({0.25F, 0, 0, 0, -30, 40}), 2, 1, 5.0);
  CHECK(update.grads == std::vector<float>{0.25F, 0, -3, 4});
}

TEST_CASE("the first row with a non-finite gradient is named", "[embedding]") {
  const float inf = std::numeric_limits<float>::infinity();
  RowUpdate update;
  update.gather(three_rows({1, 2, 0, 0, inf, 4}), 2, 1, std::nullopt);
  CHECK(update.non_finite == "row 8");
  update.gather(three_rows({1, 2, 0, 0, 3, 4}), 2, 1, std::nullopt);
  CHECK(update.non_finite.empty());
}

}  // namespace tenon
