// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/old_names.hpp"

#include "host/recipe/recipe_difference.hpp"
#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// A recipe as an earlier release froze it.
std::string old_text(const std::string& frozen) {
  json recipe = json::parse(frozen);
  json& train = recipe["train"];
  train["loss_tile"] = train["loss_chunk"];
  train.erase("loss_chunk");
  train["non_finite"]["max_in_a_row"] = train["non_finite"]["max_consecutive"];
  train["non_finite"].erase("max_consecutive");
  recipe["checkpoint"]["on_spike"] = "go_on";
  return recipe.dump(2) + "\n";
}

const std::vector<std::string> kSets = {
    "train.loss_chunk=7", "train.non_finite.max_consecutive=3", "checkpoint={}"};

}  // namespace

TEST_CASE("an old name in a recipe is an error that gives the new one", "[recipe]") {
  const std::string report = report_of(
      kSmallRecipe,
      {"train.loss_tile=7", "train.non_finite.max_in_a_row=3", "checkpoint.on_spike=go_on"});
  CHECK_THAT(report, contains_text("/train/loss_tile: unknown key [recipe.unknown_key]"));
  CHECK_THAT(report, contains_text("this release calls it \"loss_chunk\""));
  CHECK_THAT(report, contains_text("/train/non_finite/max_in_a_row: unknown key"));
  CHECK_THAT(report, contains_text("this release calls it \"max_consecutive\""));
  CHECK_THAT(report, contains_text("/checkpoint/on_spike: not an allowed value"));
  CHECK_THAT(report, contains_text("this release calls it \"continue\""));
  CHECK_THAT(report, contains_text("3 errors in"));
}

TEST_CASE("the recipe of an old checkpoint is read with its old names", "[recipe]") {
  const ScratchFolder folder;
  const Recipe recipe = load_text(folder, kSmallRecipe, kSets);
  const std::string old = folder.write("old.json", old_text(frozen_recipe(recipe))).string();
  const Recipe again =
      load_recipe({.path = old, .compute_threads = 1, .takes_old_names = true}, FakeCatalog());
  CHECK(frozen_recipe(again) == frozen_recipe(recipe));
  CHECK(again.train.loss_chunk == 7);
  CHECK(again.train.non_finite.max_consecutive == 3);
  CHECK_THROWS_AS(load_recipe({.path = old, .compute_threads = 1}, FakeCatalog()), RecipeErrors);
}

TEST_CASE("a renamed key is no change when a run resumes", "[recipe]") {
  const ScratchFolder folder;
  const std::string frozen = frozen_recipe(load_text(folder, kSmallRecipe, kSets));
  CHECK(recipe_changes({old_text(frozen), 1}, {frozen, 1}).empty());
  const std::string other =
      frozen_recipe(load_text(folder, kSmallRecipe, {"train.loss_chunk=8", "checkpoint={}"}));
  const std::string before = old_text(frozen);
  const auto changes = recipe_changes({before, 1}, {other, 1});
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].pointer == "/train/loss_chunk");
  CHECK(changes[0].before == "7");
  CHECK(changes[1].pointer == "/train/non_finite/max_consecutive");
}

TEST_CASE("present names and unknown keys stay as they are", "[recipe]") {
  const json recipe =
      json::parse(R"({"train": {"loss_chunk": 1, "loss_tile": 2, "x": 3}, "y": 4})");
  json same = recipe;
  replace_old_names(same);
  CHECK(same == recipe);
}

}  // namespace tenon
