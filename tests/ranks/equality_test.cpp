// SPDX-License-Identifier: Apache-2.0
//
// One rank is two ranks is four ranks: 50 steps at the same global batch give the same figures and
// the same parameters, however these are shared out and whatever else a step does. All features are
// paired with all ways of sharing over the cases, not multiplied.
//
// The data are uneven: samples have unequally many labels, some none, and the last global batch of
// each epoch is not full, so that ranks go without samples.
#include <string>
#include <utility>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

struct Case {
  uint32_t num_ranks;
  const char* model;
  const char* patch;
};

const Case kCases[] = {
    // Replicated.
    {2, "tied", R"({"data": {"batch_size": 4},
                    "parallel": {"shard": 1, "replicate": -1, "bucket_bytes": 1000}})"},
    {4, "module", R"({"data": {"batch_size": 1}, "parallel": {"shard": 1, "replicate": -1}})"},
    {4, "tied", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                    "parallel": {"shard": 1, "replicate": -1, "offload": true}})"},
    {2, "untied", R"({"data": {"batch_size": 2}, "train": {"loss_chunk": 3},
                      "parallel": {"share_memory": false, "shard": 1, "replicate": -1, "bucket_bytes": 1}})"},
    // ZeRO 1.
    {2, "untied", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                      "parallel": {"stage": 1}})"},
    {4, "module", R"({"data": {"batch_size": 2}, "parallel": {"stage": 1, "offload": true}})"},
    {4, "tied", R"({"data": {"batch_size": 1}, "train": {"loss_chunk": 4},
                    "parallel": {"stage": 1, "unsharded": ["layers.1"]}})"},
    // ZeRO 2.
    {2, "tied", R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"},
                    "parallel": {"stage": 2, "offload": true}})"},
    {4, "module", R"({"data": {"batch_size": 1},
                      "parallel": {"stage": 2, "unsharded": ["embed", "rare"]}})"},
    {4, "untied", R"({"data": {"batch_size": 2}, "train": {"loss_chunk": 4},
                      "parallel": {"stage": 2}})"},
    // ZeRO 3.
    {2, "tied", R"({"data": {"batch_size": 4}, "train": {"loss_chunk": 4},
                    "parallel": {"stage": 3, "reshard_after_forward": true}})"},
    {4, "tied", R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"},
                    "parallel": {"stage": 3, "reshard_after_forward": false}})"},
    {2, "module", R"({"data": {"batch_size": 2},
                      "parallel": {"stage": 3, "reshard_after_forward": true, "offload": true}})"},
    {4, "untied", R"({"data": {"batch_size": 2},
                      "parallel": {"stage": 3, "unsharded": ["layers.*"], "offload": true}})"},
    {4, "module", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                      "parallel": {"stage": 3, "share_memory": false}})"},
    {2, "frozen", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                      "parallel": {"stage": 3}})"},
    // Two replicas of two ranks each.
    {4, "tied", R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"},
                    "parallel": {"replicate": 2, "shard": 2, "offload": true}})"},
    {4, "module", R"({"data": {"batch_size": 2},
                      "parallel": {"replicate": 2, "shard": 2, "stage": 2}})"},
    {4, "tied", R"({"data": {"batch_size": 2}, "train": {"loss_chunk": 3},
                    "parallel": {"replicate": 2, "shard": 2, "stage": 1, "bucket_bytes": 1000}})"},
    {4, "untied", R"({"data": {"batch_size": 1},
                      "parallel": {"replicate": 2, "shard": 2, "reshard_after_forward": false,
                                   "unsharded": ["embed"]}})"},
    // Loads of experts are those of a step, whatever its microbatches.
    {1, "experts", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"}})"},
    {2, "experts", R"({"data": {"batch_size": 4}, "train": {"recompute": "blocks"},
                       "parallel": {"stage": 3}})"},
    {4, "experts", R"({"data": {"batch_size": 1}, "parallel": {"shard": 1, "replicate": -1}})"},
};

}  // namespace

TEST_CASE("one rank is many ranks, to 1e-10 in fp64", "[ranks][multi-rank][members]") {
  for (const Case& one : members_of(std::vector<Case>(std::begin(kCases), std::end(kCases)), 3)) {
    INFO(one.num_ranks << " ranks, " << one.model << ", " << one.patch);
    const nlohmann::json recipe = mesh_recipe(one.model);
    const FinishedRun run = finished_run(merged(recipe, one.patch), one.num_ranks);
    CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
    check_metrics(run, run_alone(recipe), 1e-10);
  }
}

TEST_CASE("one rank is many ranks in fp32, to its rounding", "[ranks][multi-rank][.release]") {
  const nlohmann::json recipe = merged(mesh_recipe("tied"), R"({"train": {"precision": "fp32"}})");
  for (const Case& one : {
           Case{2, "", R"({"data": {"batch_size": 4}, "parallel": {"stage": 3}})"},
           Case{4, "", R"({"data": {"batch_size": 1}, "parallel": {"shard": 1, "replicate": -1}})"},
           Case{4, "", R"({"data": {"batch_size": 2}, "parallel": {"shard": 2, "replicate": 2}})"},
       }) {
    INFO(one.num_ranks << " ranks, " << one.patch);
    const FinishedRun run = finished_run(merged(recipe, one.patch), one.num_ranks);
    CHECK(norm_difference(run.parameters, run_alone(recipe).parameters) <= 1e-5);
    check_metrics(run, run_alone(recipe), 1e-5);
  }
}

TEST_CASE("the same ranks have the same norm, bit for bit, however parameters are sharded",
          "[ranks][multi-rank][.release]") {
  // Two ranks: a sum of two numbers is the same in either order, so gradients are equal.
  const nlohmann::json recipe = merged(
      mesh_recipe("tied"),
      R"({"data": {"batch_size": 4}, "train": {"precision": "fp32", "clip_grad_norm": 0.3}})");
  const FinishedRun whole =
      finished_run(merged(recipe, R"({"parallel": {"shard": 1, "replicate": -1}})"), 2);
  REQUIRE(whole.metrics.front().contains("grad_norm"));
  for (const char* const parallel : {R"({"stage": 1})",
                                     R"({"stage": 2})",
                                     R"({"stage": 3})",
                                     R"({"stage": 3, "offload": true})",
                                     R"({"shard": 1, "replicate": -1, "offload": true})"}) {
    INFO(parallel);
    const FinishedRun run =
        finished_run(merged(recipe, R"({"parallel": )" + std::string(parallel) + "}"), 2);
    REQUIRE(run.metrics.size() == whole.metrics.size());
    for (size_t i = 0; i < run.metrics.size(); ++i) {
      INFO("record " << i);
      REQUIRE(run.metrics[i].value("loss", 0.0) == whole.metrics[i].value("loss", 0.0));
      REQUIRE(run.metrics[i].value("grad_norm", 0.0) == whole.metrics[i].value("grad_norm", 0.0));
    }
    CHECK(run.parameters == whole.parameters);
  }
}

// A bf16 number has 8 bits; what is rounded anew in each step adds up to less than one of them.
constexpr double kRoundingOfBf16 = 1.0 / 256;

TEST_CASE("ranks with narrow numbers differ by their rounding", "[ranks][multi-rank][.release]") {
  const nlohmann::json plain = merged(mesh_recipe("tied"), R"({"train": {"precision": "fp32"}})");
  using Choice = std::pair<std::string, std::string>;
  const auto [sharing, precision] = GENERATE(Choice{R"("stage": 3)", "bf16_params"},
                                             Choice{R"("shard": 1, "replicate": -1)", "bf16"});
  CAPTURE(sharing, precision);
  const std::string two = R"({"data": {"batch_size": 4}, "parallel": {)" + sharing;

  const FinishedRun wide = finished_run(merged(plain, two + "}}"), 2);
  const FinishedRun narrow =
      finished_run(merged(plain, two + R"(, "gradient_dtype": "bf16"}})"), 2);
  CHECK(narrow.parameters_hash != wide.parameters_hash);
  CHECK(norm_difference(narrow.parameters, wide.parameters) <= kRoundingOfBf16);

  nlohmann::json recipe = plain;
  recipe["train"]["precision"] = precision;
  const FinishedRun run = finished_run(merged(recipe, two + "}}"), 2);
  CHECK(norm_difference(run.parameters, run_alone(recipe).parameters) <= kRoundingOfBf16);
}

TEST_CASE("a hook that sees whole gradients rewrites them on any number of ranks",
          "[ranks][multi-rank]") {
  const nlohmann::json recipe = merged(mesh_recipe("tied"), R"({"train": {"steps": 6},
      "hooks": [{"type": "keep_parameters"},
                {"type": "plant_at", "options": {
                  "event": "before_optimizer_step", "first_step": 3, "last_step": 4,
                  "into": "gradients", "waves": true, "full_parameters": true}}]})");
  for (const Case& one : {
           Case{2, "", R"({"data": {"batch_size": 4}, "parallel": {"stage": 1}})"},
           Case{4, "", R"({"data": {"batch_size": 2}, "parallel": {"stage": 3}})"},
       }) {
    INFO(one.num_ranks << " ranks, " << one.patch);
    const FinishedRun run = finished_run(merged(recipe, one.patch), one.num_ranks);
    CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
    check_metrics(run, run_alone(recipe), 1e-10);
  }
}

TEST_CASE("the same ranks give the same bits again", "[ranks][multi-rank][.release]") {
  const nlohmann::json recipe =
      merged(mesh_recipe("tied"),
             R"({"train": {"precision": "fp32", "steps": 20}, "eval": {"every_steps": 10},
                 "model": {"options": {"dropout": 0.1}}})");
  for (const Case& one : {
           Case{2, "", R"({"data": {"batch_size": 2}, "parallel": {"shard": 1, "replicate": -1}})"},
           Case{4, "", R"({"data": {"batch_size": 1}, "train": {"recompute": "blocks"},
                           "parallel": {"stage": 3}})"},
           Case{4, "", R"({"data": {"batch_size": 2},
                           "parallel": {"stage": 2, "replicate": 2, "offload": true}})"},
       }) {
    INFO(one.num_ranks << " ranks, " << one.patch);
    const FinishedRun first = finished_run(merged(recipe, one.patch), one.num_ranks);
    const FinishedRun second = finished_run(merged(recipe, one.patch), one.num_ranks);
    CHECK(first.metrics == second.metrics);
    CHECK(first.parameters == second.parameters);
    CHECK(first.parameters_hash == second.parameters_hash);
  }
}

}  // namespace tenon
