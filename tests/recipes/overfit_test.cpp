// SPDX-License-Identifier: Apache-2.0
//
// train.overfit_batch: the first step's batch again and again.
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::vector<double> losses_of(const HostRun& run) {
  std::vector<double> losses;
  for (const auto& record : run.metrics()) {
    if (record.contains("loss")) {
      losses.push_back(record["loss"]);
    }
  }
  return losses;
}

}  // namespace

TEST_CASE("overfit_batch trains as on a dataset that is that one batch", "[recipes]") {
  // The first 8 of 22 samples: two microbatches of 4; then steps of 8 and 6, which it replaces.
  const HostRun repeated(
      small_recipe(R"({"train": {"steps": 7, "overfit_batch": true, "gradient_accumulation": 2},
    "data": {"shuffle": false, "train": {"options": {"samples": 22}}}})"));
  const HostRun alone(small_recipe(R"({"train": {"steps": 7, "gradient_accumulation": 2},
    "data": {"shuffle": false, "train": {"options": {"samples": 8}}}})"));
  INFO(repeated.result().err);
  REQUIRE(repeated.result().exit_code == 0);
  REQUIRE(losses_of(repeated).size() == 7);
  CHECK(losses_of(repeated) == losses_of(alone));
  CHECK(losses_of(repeated).back() < losses_of(repeated).front());
  CHECK(repeated.summary()["samples"] == 7 * 8);
  CHECK(repeated.summary()["epochs"] == 2);  // of three steps each, as without it
}

TEST_CASE("overfit_batch takes a shuffled batch as it came, and leaves evaluation alone",
          "[recipes]") {
  const std::string eval = R"("data": {"eval": {"type": "windows", "options": {"samples": 9}}},
    "eval": {"at_start": true})";
  const HostRun repeated(small_recipe(R"({"train": {"overfit_batch": true}, )" + eval + "}"));
  const HostRun usual(small_recipe("{" + eval + "}"));
  INFO(repeated.result().err);
  REQUIRE(repeated.result().exit_code == 0);
  const auto first = losses_of(repeated);
  const auto other = losses_of(usual);
  CHECK(first.at(0) == other.at(0));
  CHECK(first.at(1) != other.at(1));
  CHECK(repeated.metrics().front()["eval/loss"] == usual.metrics().front()["eval/loss"]);
  CHECK(repeated.summary()["metrics"]["eval/loss"] != usual.summary()["metrics"]["eval/loss"]);
}

}  // namespace tenon
