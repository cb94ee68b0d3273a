// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/component_sites.hpp"

#include "host/recipe/recipe_loader.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::string sites_of(const json& root) {
  std::string text;
  for (const ComponentSite& site : component_sites(root)) {
    text += site.kind + " " + site.pointer + "\n";
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
    R"(optimizer.groups=[{"match": "*.bias"}])",
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
  const std::string sites = sites_of(json::parse(frozen_recipe(recipe)));
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
        "lr_scheduler /lr_scheduler\n"
        "hook /hooks/0\n"
        "storage /checkpoint/storage\n"
        "storage /load/0/from/storage\n"
        "storage /load/1/from/1/storage\n"
        "metric_sink /sinks/0\n");

  // The recipe has the same components, and those of the optimizer's groups.
  std::string walked;
  for_each_component(recipe, [&walked](const ComponentUse& use) {
    const bool is_short = use.pointer == "/model" || use.pointer == "/loss";
    walked += use.kind + " " +
              (is_short ? use.kind == "model" ? "/models/main" : "/losses/0" : use.pointer) + "\n";
  });
  const std::string group = "optimizer /optimizer/groups/0\n";
  const std::size_t at = walked.find(group);
  REQUIRE(at != std::string::npos);
  CHECK(walked.erase(at, group.size()) == sites);
}

TEST_CASE("values of a wrong type name no components", "[recipe]") {
  CHECK(sites_of(json::parse(R"({"model": 1, "data": {"train": [], "eval": "x"}, "hooks": {},
      "losses": {"a": 1}, "features": [3], "load": [{"from": 4}]})"))
            .empty());
}

}  // namespace tenon
