// SPDX-License-Identifier: Apache-2.0
//
// A run that continues on all meshes of replicate x shard x tensor x context x pipeline with 8
// ranks, one after the other: the parameters, losses and samples of one rank.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/ranks/finished_run.hpp"
#include "tests/ranks/mesh_kinds.hpp"
#include "tests/ranks/mesh_recipes.hpp"
#include "tests/ranks/meshes.hpp"
#include "tests/ranks/relay.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {
namespace {

using nlohmann::json;

constexpr uint32_t kNumRanks = 8;

// A run on one rank that continues on each of the meshes, two steps on each. The model has 8 units,
// and heads for 8 ranks.
void check_relay(json recipe, const std::vector<Mesh>& meshes) {
  recipe.merge_patch(json::parse(R"({"model": {"options": {
      "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
      "head_dim": 4}}})"));
  std::vector<Leg> legs = {{1, "{}", 2}};
  for (const Mesh& mesh : meshes) {
    // A step has 8 samples or rows.
    const json patch = {{"data", {{"batch_size", 1}}}, {"parallel", parallel_of(mesh)}};
    legs.push_back({kNumRanks, patch.dump(), legs.back().last_step + 2});
  }
  recipe["train"]["steps"] = legs.back().last_step;
  const FinishedRun run = relay(recipe, legs);
  const FinishedRun& alone = run_alone(recipe);
  CHECK(largest_difference(run.parameters, alone.parameters) <= 1e-10);
  CHECK(run.samples == alone.samples);
  check_metrics(run, alone, 1e-10);
}

}  // namespace

TEST_CASE("a run continues on each mesh of 8 ranks, in the middle of an epoch",
          "[ranks][multi-rank][members]") {
  const json packed = packed_recipe(R"({"data": {"train": {"options": {"samples": 6000}}},
                                        "train": {"global_batch_tokens": 192}})");
  // The first epoch ends after 51 steps. Its last step has 4 samples.
  const json rows = short_recipe("tied", R"({"data": {"train": {"options": {"samples": 404}}}})");
  for (const json& recipe : members_of(std::vector<json>{packed, rows}, 1)) {
    check_relay(recipe, members_of(meshes_of(kNumRanks), 3));
  }
}

}  // namespace tenon
