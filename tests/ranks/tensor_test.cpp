// SPDX-License-Identifier: Apache-2.0
//
// Ranks that divide the parameters of blocks: the metrics and the parameters of one rank, whatever
// else a step does, and what cannot be divided is refused before the first step.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct Case {
  uint32_t num_ranks;
  const char* model;  // type and options
  const char* patch;
};

constexpr char kLm[] = R"("type": "divided_lm")";
// Each rank has heads of queries, keys and values of its own.
constexpr char kWideLm[] = R"("type": "divided_lm", "options": {"key_heads": 4})";
constexpr char kFrozen[] = R"("type": "divided_lm", "frozen": ["up.*", "qkv.weight"])";
constexpr char kC[] = R"("type": "divided_c")";
constexpr char kModule[] = R"("type": "module_lm")";

const Case kCases[] = {
    {2, kLm, R"({"parallel": {"tensor": 2}})"},
    // Fewer heads of keys than ranks.
    {4, kLm, R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 4}})"},
    {2, kC, R"({"parallel": {"tensor": 2}})"},
    {4, kC, R"({"train": {"recompute": "blocks"}, "parallel": {"tensor": 4}})"},
    // Blocks that declare nothing.
    {2, kModule, R"({"parallel": {"tensor": 2}})"},
    // 4 heads and 16 rows do not divide by 3, and 12 units do.
    {3, kLm, R"({"parallel": {"tensor": 3, "undeclared": "whole"}})"},
    {4, kLm, R"({"data": {"batch_size": 4}, "parallel": {"tensor": 2, "stage": 1}})"},
    {4, kWideLm, R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                     "parallel": {"tensor": 2, "stage": 2}})"},
    {4, kWideLm, R"({"data": {"batch_size": 4}, "train": {"recompute": "blocks"},
                     "parallel": {"tensor": 2, "stage": 3}})"},
    {4, kFrozen, R"({"data": {"batch_size": 2}, "train": {"loss_chunk": 3},
                     "parallel": {"tensor": 2, "stage": 3}})"},
    {4, kWideLm, R"({"data": {"batch_size": 4}, "train": {"tile": 2},
                     "parallel": {"tensor": 2, "replicate": 2, "shard": 1}})"},
    {4, kLm, R"({"parallel": {"tensor": 2, "context": 2}})"},
    {2, kWideLm, R"({"data": {"batch_size": 2}, "train": {"loss_chunk": 1, "tile": 3},
                     "parallel": {"tensor": 2}})"},
};

json recipe_of(const char* model) {
  return merged(mesh_base_recipe(),
                R"({"train": {"steps": 20}, "eval": {"every_steps": 10}, "model": {)" +
                    std::string(model) + R"(}, "metrics": [{"type": "accuracy"}]})");
}

}  // namespace

TEST_CASE("ranks that divide blocks are one rank, to 1e-10 in fp64",
          "[ranks][multi-rank][members]") {
  for (const Case& one : members_of(std::vector<Case>(std::begin(kCases), std::end(kCases)), 4)) {
    INFO(one.num_ranks << " ranks, " << one.model << ", " << one.patch);
    const json recipe = recipe_of(one.model);
    const FinishedRun run = finished_run(merged(recipe, one.patch), one.num_ranks);
    CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
    check_metrics(run, run_alone(recipe), 1e-10);
  }
}

TEST_CASE("what cannot be divided is refused before the first step", "[ranks][multi-rank]") {
  struct Refused {
    const char* patch;
    const char* message;
  };
  for (const Refused& one :
       {Refused{R"({"parallel": {"tensor": 3}})",
                "[model.indivisible] /parallel/tensor 3 cannot divide parameter 'qkv.weight' of "
                "block 'attend'"},
        Refused{R"({"parallel": {"tensor": 4}})",
                "[distributed.bad_mesh] replicate 1 x shard -1 x tensor 4: a degree exceeds the "
                "number of ranks, which is 3"}}) {
    INFO(one.patch);
    const RanksRun run(merged(recipe_of(kLm), one.patch).dump(), 3);
    INFO(run.text());
    CHECK(run.text().find(one.message) != std::string::npos);
    CHECK(run.exit_codes() == std::vector<int>(3, 3));
    CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
  }
}

TEST_CASE("blocks that run whole on each rank are logged", "[ranks][multi-rank]") {
  const RanksRun run(
      merged(recipe_of(kLm), R"({"train": {"steps": 1}, "parallel": {"tensor": 2}})").dump(), 2);
  CHECK(run.text().find("2 of 8 blocks run whole on each of the 2 ranks of a tensor group, which "
                        "keeps their 128 parameters whole: embed, mean") != std::string::npos);
}

// A decoder that ran whole on each rank would equal one rank, too.
TEST_CASE("all blocks of decoders are divided", "[ranks][multi-rank]") {
  for (const char* const model : {"tied", "experts"}) {
    const RanksRun run(
        merged(mesh_recipe(model), R"({"train": {"steps": 1}, "parallel": {"tensor": 2}})").dump(),
        2);
    INFO(run.text());
    CHECK(run.exit_codes() == std::vector<int>(2, 0));
    CHECK(run.text().find("run whole on each") == std::string::npos);
  }
}

}  // namespace tenon
