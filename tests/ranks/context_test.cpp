// SPDX-License-Identifier: Apache-2.0
//
// Ranks that divide the positions of sequences: the metrics and the parameters of one rank,
// whatever else a step does, and what cannot be divided is refused before the first step.
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
  const char* model;
  const char* patch;
};

const Case kCases[] = {
    {2, "tied", R"({"parallel": {"context": 2}})"},
    // More ranks than heads, and parts of three, three and two positions.
    {3, "tied", R"({"train": {"recompute": "blocks"}, "parallel": {"context": 3}})"},
    {4, "untied", R"({"train": {"loss_chunk": 1}, "parallel": {"context": 4}})"},
    {2, "tied", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                    "parallel": {"context": 2, "context_by": "gather"}})"},
    {4, "experts", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                       "parallel": {"context": 2, "stage": 3}})"},
    {2,
     "experts",
     R"({"data": {"batch_size": 4}, "parallel": {"context": 2, "context_by": "gather"}})"},
    {4, "untied", R"({"data": {"batch_size": 4}, "train": {"tile": 2},
                      "parallel": {"context": 2, "replicate": 2, "shard": 1}})"},
    {4, "frozen", R"({"data": {"batch_size": 4}, "train": {"loss_chunk": 3},
                      "parallel": {"context": 2, "stage": 2, "context_by": "gather"}})"},
    // The plugins of docs/plugin-guide/sequences.md, of each lane.
    {2, "c_decoder", R"({"parallel": {"context": 2}})"},
    {2, "part_lm", R"({"parallel": {"context": 2}})"},
    {3, "part_lm", R"({"train": {"recompute": "blocks"},
                       "parallel": {"context": 3, "context_by": "gather"}})"},
    {2, "part_module", R"({"parallel": {"context": 2}})"},
    {2, "part_stable", R"({"parallel": {"context": 2}})"},
    {2, "context_faults", R"({"parallel": {"context": 2}})"},
    // Blocks that declare nothing.
    {2, "module", R"({"parallel": {"context": 2, "undeclared": "whole"}})"},
    {4, "module", R"({"data": {"batch_size": 2}, "train": {"recompute": "blocks"},
                      "parallel": {"context": 2, "undeclared": "whole", "stage": 3}})"},
    // Each microbatch weighs the same, so that its count is that of all its positions.
    {2, "tied", R"({"data": {"batch_size": 4}, "train": {"normalize": "microbatch"},
                    "parallel": {"context": 2}})"},
};

}  // namespace

TEST_CASE("ranks that divide positions are one rank, to 1e-10 in fp64",
          "[ranks][multi-rank][members]") {
  for (const Case& one : members_of(std::vector<Case>(std::begin(kCases), std::end(kCases)), 4)) {
    INFO(one.num_ranks << " ranks, " << one.model << ", " << one.patch);
    const json recipe = merged(mesh_recipe(one.model), one.patch);
    json plain = mesh_recipe(one.model);
    if (recipe["train"].contains("normalize")) {
      plain = merged(plain, R"({"data": {"batch_size": 4}, "train": {"normalize": "microbatch"}})");
    }
    const FinishedRun run = finished_run(recipe, one.num_ranks);
    CHECK(largest_difference(run.parameters, run_alone(plain).parameters) <= 1e-10);
    check_metrics(run, run_alone(plain), 1e-10);
  }
}

TEST_CASE("fewer positions than ranks", "[ranks][multi-rank][.release]") {
  for (const int length : {1, 3, 7}) {
    for (const char* const by : {"ulysses", "gather"}) {
      INFO("length " << length << ", " << by);
      json recipe = mesh_recipe("tied");
      recipe["data"]["train"]["options"]["length"] = length;
      recipe["data"]["eval"]["options"]["length"] = length;
      recipe["train"]["steps"] = 10;
      json divided = recipe;
      divided["parallel"]["context"] = 4;
      divided["parallel"]["context_by"] = by;
      const FinishedRun run = finished_run(divided, 4);
      CHECK(largest_difference(run.parameters, run_alone(recipe).parameters) <= 1e-10);
      check_metrics(run, run_alone(recipe), 1e-10);
    }
  }
}

TEST_CASE("what cannot be divided by positions is refused before the first step",
          "[ranks][multi-rank]") {
  struct Refused {
    const char* model;
    const char* patch;
    const char* message;
  };
  for (const Refused& one : {
           Refused{"module",
                   R"({"parallel": {"context": 2}})",
                   "[model.undivided] /parallel/context 2 divides the positions of sequences, and "
                   "block 'embed' does not declare"},
           Refused{
               "tied",
               R"({"parallel": {"context": 3}})",
               "[distributed.bad_mesh] replicate 1 x shard -1 x context 3: a degree exceeds the "
               "number of ranks, which is 2"},
       }) {
    INFO(one.model << " " << one.patch);
    const RanksRun run(merged(mesh_recipe(one.model), one.patch).dump(), 2);
    CHECK(run.text().find(one.message) != std::string::npos);
    INFO(run.text());
    CHECK(run.exit_codes() == std::vector<int>(2, 3));
    CHECK_FALSE(std::filesystem::exists(run.run_dir() / "metrics.jsonl"));
  }
}

}  // namespace tenon
