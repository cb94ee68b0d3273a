// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/plan_report.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

BlockCost cost_of(double flops, int64_t output, int64_t saved) {
  BlockCost cost;
  cost.source = BlockCost::Source::kDeclared;
  cost.forward_flops = flops;
  cost.output_bytes = output;
  cost.saved_bytes = saved;
  return cost;
}

// Six blocks: an embedding, two layers of attention and feed-forward, a head. The embedding is
// frozen.
RecipePlan small_plan() {
  RecipePlan plan;
  plan.recipe = "small.json";
  plan.device = "cpu";
  plan.precision = "fp32";
  plan.request.ranks = 2;
  plan.batch_size = 4;
  plan.tokens_a_sample = 512;
  PlanSubject& subject = plan.subject;
  const char* const names[] = {"embed", "0.attention", "0.mlp", "1.attention", "1.mlp", "head"};
  const int64_t elements[] = {1000, 300, 800, 300, 800, 50};
  for (uint32_t b = 0; b < 6; ++b) {
    ModelBlock block;
    block.name = names[b];
    block.parameters = {b};
    subject.graph.blocks.push_back(block);
    ModelParameter parameter;
    parameter.name = "w";
    parameter.shape = {elements[b]};
    parameter.blocks = {b};
    subject.graph.parameters.push_back(parameter);
    subject.groups.push_back({.name = names[b],
                              .blocks = {b},
                              .stored = at::kFloat,
                              .seen = at::kFloat,
                              .is_trainable = b > 0,
                              .is_unsharded = false,
                              .parameters = {b},
                              .partitions = {0},
                              .numels = {elements[b]}});
  }
  subject.costs = {cost_of(0, 2048, 16),
                   cost_of(3e6, 2048, 5120),
                   cost_of(8e6, 2048, 9216),
                   cost_of(3e6, 2048, 5120),
                   cost_of(8e6, 2048, 9216),
                   cost_of(1.5e9, 1 << 20, 1 << 20)};
  plan.plan.choice = {.replicate = 1, .shard = 2, .stage = 3, .recomputes = true};
  plan.plan.memory.parameters = 13'000;
  plan.plan.memory.gradients = 9'000;
  plan.plan.memory.activations = 3 << 20;
  plan.plan.memory.moment = "backward of block 'head'";
  return plan;
}

}  // namespace

TEST_CASE("a plan is told with sums, runs of equal blocks and the fullest moment", "[train]") {
  const std::string text = plan_text(small_plan());
  CHECK_THAT(text,
             contains_text("small.json on 2 ranks: replicate 1 x shard 2, stage 3, recompute "
                           "blocks, fp32\n"));
  CHECK_THAT(text,
             contains_text("each step: 8 samples, 4,096 tokens; each rank: 1 x 4 samples of "
                           "512 tokens\n"));
  CHECK_THAT(text,
             contains_text("parameters: 3,250, of which 1,000 are frozen; each rank stores "));
  CHECK_THAT(text, contains_text("0.attention to 1.attention        2"));
  CHECK_THAT(text, contains_text("peak memory of each rank, in the backward of block 'head'"));
  CHECK_THAT(text, contains_text("no data is sent between ranks"));
  CHECK_THAT(text, !contains_text("fits"));
}

TEST_CASE("a plan that does not fit says what is missing, and what to set", "[train]") {
  RecipePlan plan = small_plan();
  plan.request.memory = 4 << 20;
  CHECK_THAT(plan_text(plan), contains_text("fits: each rank has 4.00 MiB"));
  plan.request.memory = 2 << 20;
  plan.exceeds = true;
  plan.suggestion = plan.plan;
  plan.suggestion->choice.stage = 2;
  plan.suggestion->choice.keeps_attention = true;
  const std::string text = plan_text(plan);
  CHECK_THAT(text, contains_text("WARNING: does not fit: each rank has 2.00 MiB"));
  CHECK_THAT(text,
             contains_text("The largest part is activations (3.00 MiB): reduce "
                           "data.batch_size"));
  CHECK_THAT(text,
             contains_text("--set parallel.stage=2 --set parallel.offload=false --set "
                           "train.recompute=selective"));
}

TEST_CASE("a plan as JSON has exact numbers", "[train]") {
  RecipePlan plan = small_plan();
  const json told = json::parse(plan_json(plan));
  CHECK(told["ranks"] == 2);
  CHECK(told["step"]["tokens"] == 4096);
  CHECK(told["parameters"]["total"] == 3250);
  CHECK(told["parameters"]["trainable"] == 2250);
  REQUIRE(told["blocks"].size() == 4);
  CHECK(told["blocks"][2]["first"] == "0.mlp");
  CHECK(told["blocks"][2]["last"] == "1.mlp");
  CHECK(told["blocks"][2]["count"] == 2);
  CHECK(told["plan"]["memory"]["sum"] == plan.plan.memory.sum());
  CHECK(told["plan"]["recompute"] == "blocks");
  CHECK(told["fits"].is_null());
  plan.request.memory = 1 << 30;
  CHECK(json::parse(plan_json(plan))["fits"] == true);
}

}  // namespace tenon
