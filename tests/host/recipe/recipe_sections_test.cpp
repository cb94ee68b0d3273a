// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_sections.hpp"

#include "host/recipe/recipe_loader.hpp"

#include <string>
#include <vector>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The components that the recipe names outside options.
std::string components_of(const RecipeDraft& draft) {
  std::string text;
  for (const NeededComponent& component : draft.components()) {
    if (!component.kind.empty()) {
      text += component.kind + " " + component.pointer + "\n";
    }
  }
  return text;
}

// A component in each place that takes one.
const std::vector<std::string> kEverywhere = {
    R"(data.train={"mix": [{"type": "numbers", "weight": 1}, {"type": "numbers", "weight": 2}]})",
    R"(data.eval={"a": {"type": "numbers"}, "b": {"mix": [{"type": "numbers", "weight": 1}]}})",
    R"(data.test={"type": "numbers"})",
    R"(features=[{"name": "f", "from": "x", "do": [{"type": "hash"}, {"type": "hash"}]}])",
    R"(metrics=[{"type": "rows"}])",
    R"(tables={"user": {"optimizer": {"type": "plain"}}})",
    R"(optimizer.groups=[{"match": "*.bias"}, {"match": "*", "type": "sgd", "lr": 1}])",
    R"(lr_scheduler={"type": "cosine"})",
    R"(hooks=[{"type": "early_stop"}])",
    R"(checkpoint={"storage": {"type": "s3", "options": {"uri": "s3://a"}}})",
    R"(load=[{"from": {"path": "a", "storage": {"type": "s3", "options": {"uri": "s3://b"}}}},
             {"from": ["b", {"path": "c", "storage": {"type": "s3", "options": {"uri": "s3://c"}}}]}])",
};

}  // namespace

TEST_CASE("every place that takes a component is found, in the order of the keys", "[recipe]") {
  const ScratchFolder folder;
  FakeCatalog catalog;
  catalog.add("metric", "rows", {"org.x", "x.so", ""});
  catalog.add("sparse_optimizer", "plain", {"org.x", "x.so", ""});
  const std::string path = folder.write("a.json", kSmallRecipe).string();
  const Recipe recipe = load_recipe({.path = path, .sets = kEverywhere}, catalog);
  const auto frozen = folder.write("frozen.json", frozen_recipe(recipe));
  const std::string sites = components_of(read_recipe({.path = frozen.string()}));
  CHECK(sites ==
        "model /models/main\n"
        "dataset /data/train/mix/0\n"
        "dataset /data/train/mix/1\n"
        "dataset /data/eval/a\n"
        "dataset /data/eval/b/mix/0\n"
        "dataset /data/test\n"
        "feature /features/0/do/0\n"
        "feature /features/0/do/1\n"
        "sparse_optimizer /tables/user/optimizer\n"
        "loss /losses/0\n"
        "metric /metrics/0\n"
        "optimizer /optimizer\n"
        "optimizer /optimizer/groups/0\n"
        "optimizer /optimizer/groups/1\n"
        "lr_scheduler /lr_scheduler\n"
        "hook /hooks/0\n"
        "storage /checkpoint/storage\n"
        "storage /load/0/from/storage\n"
        "storage /load/1/from/1/storage\n"
        "metric_sink /sinks/0\n");

  std::string walked;
  for_each_component(recipe, [&walked](const ComponentUse& use) {
    const bool is_short = use.pointer == "/model" || use.pointer == "/loss";
    walked += use.kind + " " +
              (is_short ? use.kind == "model" ? "/models/main" : "/losses/0" : use.pointer) + "\n";
  });
  CHECK(walked == sites);
}

TEST_CASE("values of a wrong type name no components", "[recipe]") {
  const ScratchFolder folder;
  const auto file = folder.write("a.json", R"({"model": 1, "data": {"train": [], "eval": "x"},
      "hooks": {}, "losses": {"a": 1}, "features": [3], "load": [{"from": 4}], "sinks": []})");
  const RecipeDraft draft = read_recipe({.path = file.string()});
  CHECK(components_of(draft).empty());
  CHECK_FALSE(draft.problems().empty());
}

}  // namespace tenon
