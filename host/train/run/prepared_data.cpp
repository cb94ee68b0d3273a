// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/prepared_data.hpp"

#include "host/distributed/ranks/mesh.hpp"
#include "host/tensor/philox.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/run/shown_samples.hpp"

#include <utility>

namespace tenon {

std::vector<ProcessedSet> process_data(const Recipe& recipe,
                                       PluginRegistry& plugins,
                                       int64_t num_shown) {
  const Mesh mesh({.replicate = 1, .shard = 1}, 1, 0);
  const tenon_mesh view = mesh.view();
  ComponentFactory factory(plugins, recipe, view);
  const uint64_t seed = mix_seeds(recipe.seed, stream_of("data"));
  std::vector<ProcessedSet> sets;
  const auto open = [&](const DatasetUse& use, std::string place, bool shuffle) {
    RunDataset set(factory, use, place, seed, shuffle);
    const DataSourceInfo& info = set.source().info();
    const bool has_size = info.style == DatasetStyle::kMap && !info.has_windows;
    sets.push_back({.place = std::move(place),
                    .samples = has_size ? std::optional(set.source().size(nullptr)) : std::nullopt,
                    .shown = {}});
    if (num_shown > 0 && sets.size() == 1) {
      sets.back().shown = shown_samples(recipe, factory, set.source(), num_shown);
    }
  };
  open(recipe.data.train, "data/train", recipe.data.shuffle);
  for (const std::vector<EvalSetUse>* const list : {&recipe.data.eval, &recipe.data.test}) {
    for (const EvalSetUse& set : *list) {
      open(set.data, "data/" + set.list + (set.name.empty() ? "" : "/" + set.name), false);
    }
  }
  return sets;
}

}  // namespace tenon
