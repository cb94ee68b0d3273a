// SPDX-License-Identifier: Apache-2.0
#include "host/train/best_state.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// One number, and one tensor that changes in place.
class Part final : public Stateful {
 public:
  void set(double value) { tensor_.fill_(value); }
  double value() const { return tensor_[0].item<double>(); }

  void snapshot(StateTree& tree, const std::string& prefix) const override {
    tree.put_tensor(state_path(prefix, "w"), tensor_, StateTree::Copy::kYes);
  }
  void load(const StateTree& tree, const std::string& prefix) override {
    tree.copy_tensor(state_path(prefix, "w"), tensor_);
  }

 private:
  at::Tensor tensor_ = at::zeros({2}, at::kDouble);
};

MetricRecord loss(double value) {
  return {.step = 0, .values = {{"eval/loss", value}}};
}

const KeepBestRecipe kSmallest = {.metric = "eval/loss", .is_max = false};

}  // namespace

TEST_CASE("the parts of the best evaluation come back, the first of equal ones", "[train]") {
  Part part;
  BestState best(kSmallest, {{"part", &part}});
  best.restore();  // nothing is kept yet
  CHECK(part.value() == 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  uint64_t step = 0;
  for (const double value : {3.0, 1.0, 1.0, nan, 2.0}) {
    part.set(static_cast<double>(++step));
    best.consider(loss(value), step);
  }
  best.restore();
  CHECK(part.value() == 2);
  REQUIRE(best.kept().has_value());
  CHECK(best.kept()->step == 2);
  CHECK(best.kept()->value == 1);
  CHECK(best.kept()->bytes == 16);
}

TEST_CASE("the largest may be the best", "[train]") {
  Part part;
  BestState best({.metric = "eval/loss", .is_max = true}, {{"part", &part}});
  best.consider(loss(1), 1);
  best.consider(loss(2), 2);
  best.consider(loss(0), 3);
  CHECK(best.kept()->step == 2);
}

TEST_CASE("an evaluation without the metric is an error that names what it has", "[train]") {
  Part part;
  BestState best({.metric = "eval/accuracy", .is_max = true}, {{"part", &part}});
  try {
    best.consider(loss(1), 5);
    FAIL("there is no accuracy");
  } catch (const Error& error) {
    CHECK(error.id() == "train.no_best");
    CHECK_THAT(error.what(), contains_text("eval/loss"));
  }
}

TEST_CASE("what is kept is part of the state of a run", "[train]") {
  Part part;
  BestState best(kSmallest, {{"part", &part}});
  part.set(4);
  best.consider(loss(1), 8);
  StateTree tree(StateTree::Copies::kOnHost);
  best.snapshot(tree, "best");
  part.set(9);
  Part other;
  BestState loaded(kSmallest, {{"part", &other}});
  loaded.load(tree, "best");
  REQUIRE(loaded.kept().has_value());
  CHECK(loaded.kept()->step == 8);
  other.set(0);
  loaded.restore();
  CHECK(other.value() == 4);
  loaded.load(StateTree(), "best");  // a run that kept none
  CHECK_FALSE(loaded.kept().has_value());
}

}  // namespace tenon
