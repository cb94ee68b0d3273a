// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/component_factory.hpp"

#include <string>
#include <vector>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

PluginSetup all_plugins() {
  PluginSetup setup;
  setup.folders = {{plugin_dir().string(), "--plugin-dir"},
                   {test_plugin_dir().string(), "--plugin-dir"}};
  setup.services = zoo_services();
  setup.vetting = Vetting::kNone;
  setup.vet_cache_file = "";
  return setup;
}

tenon_mesh one_rank() {
  tenon_mesh mesh{};
  mesh.struct_size = sizeof mesh;
  mesh.world_size = 1;
  for (uint32_t& size : mesh.size) {
    size = 1;
  }
  return mesh;
}

ComponentUse byte_at(const std::string& pointer) {
  return {.kind = "tokenizer",
          .type = "byte",
          .plugin_id = "org.tenon.byte",
          .options = "{}",
          .pointer = pointer,
          .nested = {}};
}

// A component whose option `words` is `words`.
ComponentUse metric_with(ComponentUse words) {
  ComponentUse use = {.kind = "metric",
                      .type = "four_states",
                      .plugin_id = "org.tenon.test.four_states",
                      .options = R"({"wrong_rows": false, "train": false, "words": {}})",
                      .pointer = "/metrics/0",
                      .nested = {}};
  use.nested.push_back({"/words", std::move(words)});
  return use;
}

// A recipe with a metric that has a tokenizer in its options.
Recipe recipe_with_words() {
  Recipe recipe;
  recipe.metrics.push_back(
      {.name = "m", .inputs = {}, .use = metric_with(byte_at("/metrics/0/options/words"))});
  return recipe;
}

}  // namespace

TEST_CASE("a component inside the options of a metric is created with it", "[train]") {
  PluginRegistry registry(all_plugins());
  const tenon_mesh mesh = one_rank();
  const Recipe recipe = recipe_with_words();
  ComponentFactory factory(registry, recipe, mesh);
  CHECK_NOTHROW(factory.create(recipe.metrics[0].use, "metrics/0"));
}

TEST_CASE("a component inside options is created once, also for the host itself", "[train]") {
  PluginRegistry registry(all_plugins());
  const tenon_mesh mesh = one_rank();
  const Recipe recipe = recipe_with_words();
  ComponentFactory factory(registry, recipe, mesh);
  const ComponentInstance metric = factory.create(recipe.metrics[0].use, "metrics/0");
  const ComponentUse& words = recipe.metrics[0].use.nested[0].use;
  const ComponentInstance* const created = &factory.nested(words);
  CHECK(factory.nested_instances() == std::vector<const ComponentInstance*>{created});
  CHECK(&factory.nested(words) == created);
}

TEST_CASE("a reference leads to a component of any section", "[train]") {
  PluginRegistry registry(all_plugins());
  const tenon_mesh mesh = one_rank();
  Recipe recipe;
  // The same plugin stands in for a storage: the factory does not look at kinds.
  ComponentUse storage = metric_with(byte_at("/load/0/from/storage/options/words"));
  recipe.load.emplace_back().from.push_back({.path = "a", .storage = storage});
  ComponentUse reference;
  reference.ref = "/load/0/from/storage/options/words";
  recipe.metrics.push_back({.name = "m", .inputs = {}, .use = metric_with(reference)});
  ComponentFactory factory(registry, recipe, mesh);
  CHECK_NOTHROW(factory.create(recipe.metrics[0].use, "metrics/0"));
}

}  // namespace tenon
