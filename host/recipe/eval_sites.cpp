// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/eval_sites.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {

using nlohmann::json;

bool is_single_dataset(const json& eval) {
  // "options" and "mix" are keys of a dataset, so no set can have these names.
  return eval.empty() || eval.contains("options") || eval.contains("mix") ||
         std::ranges::any_of(eval, [](const json& entry) { return !entry.is_object(); });
}

std::vector<EvalSite> eval_sites(const json& root) {
  std::vector<EvalSite> sites;
  for (const std::string list : {"eval", "test"}) {
    const std::string pointer = "/data/" + list;
    const json* const datasets = find_at(root, pointer);
    if (datasets == nullptr || !datasets->is_object()) {
      continue;
    }
    if (is_single_dataset(*datasets)) {
      sites.push_back({.list = list, .name = "", .pointer = pointer});
      continue;
    }
    for (const std::string& name : keys_of(*datasets)) {
      sites.push_back({.list = list, .name = name, .pointer = join_pointer(pointer, name)});
    }
  }
  return sites;
}

std::vector<std::string> dataset_pointers(const json& root) {
  std::vector<std::string> pointers;
  if (const json* const train = find_at(root, "/data/train"); train != nullptr) {
    pointers.emplace_back("/data/train");
  }
  for (const EvalSite& site : eval_sites(root)) {
    pointers.push_back(site.pointer);
  }
  return pointers;
}

}  // namespace tenon
