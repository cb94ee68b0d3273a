// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/mesh_kinds.hpp"

#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {

using nlohmann::json;

json short_recipe(const std::string& model, const std::string& patch) {
  return merged(
      merged(mesh_recipe(model), R"({"train": {"steps": 12}, "eval": {"every_steps": 6}})"), patch);
}

json decoder_recipe(const std::string& type, const std::string& options) {
  json recipe = short_recipe("tied");
  recipe["model"]["type"] = type;
  json& own = recipe["model"]["options"];
  own.erase("tie_word_embeddings");
  own.merge_patch(json::parse(options));
  return recipe;
}

json gpt2_recipe() {
  json recipe = short_recipe("tied");
  recipe["model"] = json::parse(R"({"type": "gpt2", "options": {
      "vocab_size": 16, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 8,
      "initializer_range": 0.3, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0}})");
  return recipe;
}

json memory_recipe() {
  return short_recipe("untied", R"({
      "model": {"options": {"memory": {"columns": ["n.0", "n.1"], "dim": 8, "layers": [0, 1]}}},
      "features": [{"name": "n", "from": "input_ids", "do": [{"type": "ngram"}]}],
      "tables": {"*": {"optimizer": {"type": "adagrad", "options": {"lr": 0.1}}}}})");
}

void check_kinds(std::vector<Kind> all, size_t few, double bound) {
  for (const Kind& kind : members_of(std::move(all), few)) {
    INFO(kind.name << ", " << kind.num_ranks << " ranks, " << kind.patch);
    const FinishedRun run = finished_run(merged(kind.recipe, kind.patch), kind.num_ranks);
    const FinishedRun& alone = run_alone(kind.recipe);
    CHECK(largest_difference(run.parameters, alone.parameters) <= bound);
    CHECK((bound > 0 || run.parameters_hash == alone.parameters_hash));
    check_metrics(without_bytes(run), without_bytes(alone), bound);
  }
}

}  // namespace tenon
