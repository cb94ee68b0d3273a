// SPDX-License-Identifier: Apache-2.0
//
// Rules of each dataset and mix, of computed columns, losses and metrics, and of tables.
#include "host/json/json_path.hpp"
#include "host/recipe/recipe_rules.hpp"
#include "host/text/metric_name.hpp"

namespace tenon {
namespace {

using OfDataset = When<DatasetUse>;
using OfRecipe = When<Recipe>;
using OfTable = When<TableRecipe>;

// A component key of a dataset has no effect beside "mix".
Rule<DatasetUse> not_beside_mix(const std::string& key) {
  return {.keys = {key, "mix"},
          .broken = OfDataset::given("mix") && OfDataset::given(key),
          .what = "both \"" + key + "\" and \"mix\"",
          .way_out =
              [key](const DatasetUse&, const RuleKeys& keys) {
                return "each entry of \"mix\" has its own; remove \"" + key + "\" or \"mix\" (at " +
                       keys.place_text("mix") + ")";
              },
          .waits = RuleWaits::kForNothing};
}

const Condition<DatasetUse> kNoWeights = {
    [](const DatasetUse& data, const RuleKeys&) {
      return !data.mix.empty() &&
             std::ranges::all_of(data.mix, [](const MixEntry& entry) { return entry.weight == 0; });
    },
    negated(with_key("mix", {{"contains", with_key("weight", {{"exclusiveMinimum", 0}})}}))};

const RuleTable<DatasetUse> kDatasetRules = {
    {.keys = {"type", "mix"},
     .broken = !OfDataset::given("mix") && !OfDataset::given("type"),
     .what = "missing key",
     .way_out = "or a mix of several: {\"mix\": [...]}",
     .id = "recipe.missing_key",
     .expected = "a dataset: {\"type\": ..., \"options\": {...}}",
     .waits = RuleWaits::kForNothing},
    {.keys = {"when_one_ends", "mix"},
     .broken = !OfDataset::given("mix") && OfDataset::given("when_one_ends"),
     .what = "applies to a mix, but there is one dataset",
     .way_out = "remove the key, or use \"mix\" instead of \"type\"",
     .waits = RuleWaits::kForNothing},
    not_beside_mix("type"),
    not_beside_mix("options"),
    {.keys = {"mix"},
     .id = "recipe.duplicate_name",
     .find =
         [](const DatasetUse& data, const RuleKeys& keys) {
           std::vector<NamedEntry> entries;
           for (std::size_t i = 0; i < data.mix.size(); ++i) {
             entries.push_back({data.mix[i].name, join_pointer(keys.pointer("mix"), i)});
           }
           return duplicates(entries, "source", keys);
         }},
    {.keys = {"mix"},
     .broken = OfDataset::given("mix") && kNoWeights,
     .what = "all weights are 0",
     .way_out = "set the weight of at least one source above 0",
     .id = "recipe.bad_value"},
};

template <class Use>
std::vector<NamedEntry> named_entries(const std::vector<Use>& uses, const char* list) {
  std::vector<NamedEntry> entries;
  for (const Use& use : uses) {
    if (parent_pointer(use.use.pointer) == list) {  // not the short form
      entries.push_back({use.name, use.use.pointer});
    }
  }
  return entries;
}

const RuleTable<Recipe> kComponentRules = {
    {.keys = {"features"},
     .id = "recipe.duplicate_name",
     .find =
         [](const Recipe& recipe, const RuleKeys& keys) {
           std::vector<NamedEntry> entries;
           for (std::size_t i = 0; i < recipe.features.size(); ++i) {
             entries.push_back({recipe.features[i].name, join_pointer("/features", i)});
           }
           return duplicates(entries, "feature", keys);
         }},
    not_both_forms("loss",
                   "losses",
                   "is short for a list \"losses\" of one",
                   OfRecipe::given("loss") && OfRecipe::given("losses")),
    one_of_two_forms("loss", "losses"),
    {.keys = {"losses"},
     .id = "recipe.duplicate_name",
     .find =
         [](const Recipe& recipe, const RuleKeys& keys) {
           return duplicates(named_entries(recipe.losses, "/losses"), "loss", keys);
         }},
    // A metric's name prefixes its values, beside the built-in metrics.
    {.keys = {"metrics"},
     .id = "recipe.duplicate_name",
     .find =
         [](const Recipe& recipe, const RuleKeys& keys) {
           std::vector<Violation> found;
           std::vector<NamedEntry> others;
           for (const NamedEntry& entry : named_entries(recipe.metrics, "/metrics")) {
             if (!is_host_metric(entry.name)) {
               others.push_back(entry);
               continue;
             }
             found.push_back(
                 {.key = key_of_name(entry, keys),
                  .what = "a metric named \"" + entry.name + "\" clashes with a built-in metric",
                  .way_out = "give it another \"name\""});
           }
           const std::vector<Violation> twice = duplicates(others, "metric", keys);
           found.insert(found.end(), twice.begin(), twice.end());
           return found;
         }},
};

const RuleTable<TableRecipe> kTableRules = {
    {.keys = {"features"},
     .broken = OfTable::given("features") && Condition<TableRecipe>([](const TableRecipe& table) {
                 return table.name.find_first_of("*?") != std::string::npos;
               }),
     .what = "a pattern cannot have \"features\"",
     .way_out = "a pattern sets defaults for the tables it matches; give the shared table a name",
     .waits = RuleWaits::kForNothing},
};

}  // namespace

const RuleTable<DatasetUse>& dataset_rules() {
  return kDatasetRules;
}

const RuleTable<Recipe>& component_rules() {
  return kComponentRules;
}

const RuleTable<TableRecipe>& table_rules() {
  return kTableRules;
}

}  // namespace tenon
