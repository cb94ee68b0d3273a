// SPDX-License-Identifier: Apache-2.0
//
// Accumulation against one big batch, with label counts that differ from microbatch to microbatch.
#include <cmath>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Class 0 is ignored, so that a microbatch of four samples has from one to four labels.
std::vector<nlohmann::json> train(const std::string& split) {
  const std::string patch = R"({
    "loss": {"options": {"ignore_index": 0}},
    "data": {"train": {"options": {"samples": 92}}},
    "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
    "train": {"steps": 12, "precision": "fp64", "clip_grad_norm": 0.05}
  })";
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(patch));
  recipe.merge_patch(nlohmann::json::parse(split));
  const HostRun run(recipe.dump());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  return run.metrics();
}

void check_equal(const std::vector<nlohmann::json>& a, const std::vector<nlohmann::json>& b) {
  REQUIRE(a.size() == 12);
  REQUIRE(b.size() == 12);
  for (size_t i = 0; i < a.size(); ++i) {
    for (const char* name : {"loss", "grad_norm"}) {
      INFO("step " << i + 1 << ", " << name);
      CHECK(std::abs(a[i][name].get<double>() - b[i][name].get<double>()) < 1e-10);
    }
  }
}

}  // namespace

// 92 samples are five steps of 16 and a rest of 12, so the short step is there as well.
TEST_CASE("four microbatches of four are one batch of sixteen, to 1e-10 in fp64", "[recipes]") {
  const auto whole = train(R"({"data": {"batch_size": 16}})");
  check_equal(whole,
              train(R"({"data": {"batch_size": 4}, "train": {"gradient_accumulation": 4}})"));
  check_equal(whole, train(R"({"data": {"batch_size": 4}, "train": {"global_batch_size": 16}})"));
  check_equal(whole, train(R"({"data": {"batch_size": 1}, "train": {"global_batch_size": 16}})"));
}

TEST_CASE("the mean of microbatch means is another number, and is had by asking for it",
          "[recipes]") {
  const auto whole = train(R"({"data": {"batch_size": 16}})");
  const auto means = train(
      R"({"data": {"batch_size": 4}, "train": {"gradient_accumulation": 4, "normalize": "microbatch"}})");
  CHECK(std::abs(whole[0]["grad_norm"].get<double>() - means[0]["grad_norm"].get<double>()) > 1e-6);
}

TEST_CASE("two losses are each divided by their own count, whatever the accumulation",
          "[recipes]") {
  const std::string losses = R"("loss": null, "losses": [
    {"name": "class", "type": "cross_entropy", "options": {"ignore_index": 0}},
    {"name": "again", "type": "cross_entropy", "weight": 0.5}])";
  const auto whole = train("{" + losses + R"(, "data": {"batch_size": 16}})");
  const auto parts =
      train("{" + losses + R"(, "data": {"batch_size": 4}, "train": {"global_batch_size": 16}})");
  check_equal(whole, parts);
  const auto& first = whole[0];
  CHECK(first["loss"].get<double>() ==
        Approx(first["loss/class"].get<double>() + 0.5 * first["loss/again"].get<double>())
            .epsilon(1e-12));
}

}  // namespace tenon
