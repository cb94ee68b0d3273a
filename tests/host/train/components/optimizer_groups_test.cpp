// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/optimizer_groups.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

ModelGraph graph_of(std::vector<std::pair<std::string, uint32_t>> names) {
  ModelGraph graph;
  for (const auto& [name, flags] : names) {
    ModelParameter parameter;
    parameter.name = name;
    parameter.flags = flags;
    graph.parameters.push_back(parameter);
  }
  return graph;
}

OptimizerRecipe recipe_of(const std::string& options) {
  OptimizerRecipe recipe;
  recipe.use.type = "adamw";
  recipe.use.options = options;
  return recipe;
}

}  // namespace

TEST_CASE("flagged parameters are updated without decay, apart from the rest", "[train]") {
  const ModelGraph graph = graph_of({{"w", 0}, {"norm", TENON_PARAM_NO_DECAY}, {"v", 0}});
  const OptimizerPlan plan =
      plan_optimizers(recipe_of(R"({"lr": 0.5, "weight_decay": 0.1})"), graph);
  CHECK(plan.partition_of == std::vector<uint32_t>{0, 1, 0});
  REQUIRE(plan.partitions.size() == 2);
  CHECK(plan.partitions[0].use.options == R"({"lr": 0.5, "weight_decay": 0.1})");
  CHECK(plan.partitions[1].use.options == R"({"lr":0.5,"weight_decay":0.0})");
  CHECK(plan.partitions[1].lr == 0.5);
  CHECK(plan.partitions[0].name == "default");
  CHECK(plan.partitions[1].name == "default.no_decay");
  // Without such an option there is nothing to keep apart.
  CHECK(plan_optimizers(recipe_of(R"({"lr": 0.5})"), graph).partitions.size() == 1);
}

TEST_CASE("the first group whose pattern matches has the parameter", "[train]") {
  OptimizerRecipe recipe = recipe_of(R"({"lr": 1.0})");
  for (const char* match : {"*.bias", "embed*"}) {
    OptimizerGroup group;
    group.match = match;
    group.use = recipe.use;
    group.use.options = match[0] == '*' ? R"({"lr": 2.0})" : R"({"lr": 3.0})";
    recipe.groups.push_back(group);
  }
  const OptimizerPlan plan =
      plan_optimizers(recipe, graph_of({{"embed.bias", 0}, {"embed.weight", 0}, {"w", 0}}));
  CHECK(plan.partitions[plan.partition_of[0]].lr == 2);
  CHECK(plan.partitions[plan.partition_of[1]].lr == 3);
  CHECK(plan.partitions[plan.partition_of[2]].lr == 1);
  const PlannedPartition& bias = plan.partitions[plan.partition_of[0]];
  CHECK(bias.name == "group0");
  CHECK(bias.match == "*.bias");
  CHECK(plan.partitions[plan.partition_of[2]].name == "default");
  CHECK(plan.partitions[plan.partition_of[2]].match.empty());
}

TEST_CASE("a number of options is found by its pointer", "[train]") {
  const std::string options = R"({"lr": 0.5, "betas": [0.9, 0.99], "name": "x"})";
  CHECK(number_option(options, "/lr") == 0.5);
  CHECK(number_option(options, "/betas/1") == 0.99);
  for (const char* const nothing :
       {"/betas/2", "/betas/-", "/betas", "/name", "/momentum", "lr", "/~"}) {
    CHECK_FALSE(number_option(options, nothing).has_value());
  }
}

TEST_CASE("a group that gives a decay of its own means it for flagged parameters too", "[train]") {
  OptimizerRecipe recipe = recipe_of(R"({"lr": 1.0, "weight_decay": 0.1})");
  OptimizerGroup group;
  group.match = "norm";
  group.use = recipe.use;
  group.use.options = R"({"lr": 1.0, "weight_decay": 0.3})";
  recipe.groups.push_back(group);
  const OptimizerPlan plan = plan_optimizers(recipe, graph_of({{"norm", TENON_PARAM_NO_DECAY}}));
  CHECK(plan.partitions[0].use.options == R"({"lr": 1.0, "weight_decay": 0.3})");
}

TEST_CASE("a pattern without effect and an optimizer without a rate are errors", "[train]") {
  OptimizerRecipe recipe = recipe_of(R"({"lr": 1.0})");
  OptimizerGroup group;
  group.match = "nothing*";
  group.use = recipe.use;
  recipe.groups.push_back(group);
  CHECK_THROWS_AS(plan_optimizers(recipe, graph_of({{"w", 0}})), Error);
  CHECK_THROWS_AS(plan_optimizers(recipe_of("{}"), graph_of({{"w", 0}})), Error);
}

}  // namespace tenon
