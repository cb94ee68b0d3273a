// SPDX-License-Identifier: Apache-2.0
//
// Rules of the entries of `load`, in the recipe and in models without an optimizer.
#include "host/json/json_path.hpp"
#include "host/recipe/recipe_rules.hpp"

namespace tenon {
namespace {

// Each '*' of one side needs a '*' on the other.
std::vector<Violation> uneven_renames(const LoadRecipe& load, const RuleKeys& keys) {
  std::vector<Violation> found;
  for (std::size_t i = 0; i < load.rename.size(); ++i) {
    const LoadRename& rename = load.rename[i];
    const std::string at = join_pointer(keys.pointer("rename"), i);
    const bool is_bound = keys.has(at + "/from") && keys.has(at + "/to") &&
                          !keys.is_unbound(at + "/from") && !keys.is_unbound(at + "/to");
    if (is_bound && std::ranges::count(rename.from, '*') != std::ranges::count(rename.to, '*')) {
      found.push_back({.key = at + "/to",
                       .what = "has a different number of '*' than \"" + rename.from + "\"",
                       .way_out = "each '*' of \"to\" stands for the text that the '*' of \"from\" "
                                  "at the same position matched"});
    }
  }
  return found;
}

Rule<LoadRecipe> loads_position_once(const char* key, std::int64_t Schedule::*every) {
  return {
      .keys = {key, "parts"},
      .broken = [every](const LoadRecipe& load) { return load.has_data && load.every.*every > 0; },
      .what = "reloads the data position while the data is being read",
      .way_out = "remove \"data\" from parts, or load it once, in a separate entry"};
}

// `has_names` is whether the key selects some names.
Rule<LoadRecipe> position_has_no_names(const char* key, bool (*has_names)(const LoadRecipe&)) {
  return {.keys = {key, "parts"},
          .broken =
              [has_names](const LoadRecipe& load) {
                const bool has_others =
                    load.has_parameters || load.has_tables || load.has_optimizer;
                return load.has_data && !has_others && has_names(load);
              },
          .what = "has no effect: the data position has no names",
          .way_out = "remove the key, or add \"parameters\" or \"tables\" to parts"};
}

bool selects(const std::vector<std::string>& patterns) {
  return !patterns.empty() && patterns != std::vector<std::string>{"*"};
}

const RuleTable<LoadRecipe> kMainLoadRules = {
    loads_position_once("every_steps", &Schedule::steps),
    loads_position_once("every_windows", &Schedule::windows),
    loads_position_once("every_epochs", &Schedule::epochs),
    position_has_no_names("match", [](const LoadRecipe& load) { return selects(load.match); }),
    position_has_no_names("exclude", [](const LoadRecipe& load) { return selects(load.exclude); }),
    position_has_no_names("rename", [](const LoadRecipe& load) { return !load.rename.empty(); }),
};

const RuleTable<LoadRecipe> kLoadRules = {
    {.keys = {"rename"}, .find = uneven_renames},
    {.keys = {"which", "parts"},
     .broken =
         [](const LoadRecipe& load) {
           return load.which == WhichParameters::kBest && (load.has_optimizer || load.has_data);
         },
     .what = "\"best\" has no optimizer state and no data position, which belong to the last step",
     .way_out = "set it to \"last\", or load only parameters and tables"},
};

const RuleTable<LoadRecipe> kForwardLoadRules = {
    {.keys = {"parts"},
     .broken =
         [](const LoadRecipe& load) {
           return load.has_optimizer || load.has_data || !load.has_parameters;
         },
     .what = "a model that is not trained has only parameters",
     .way_out = "remove \"parts\""},
    {.keys = {"", "every_steps", "every_windows", "every_epochs"},
     .broken = [](const LoadRecipe& load) { return !load.every.is_never(); },
     .what = "a model that is not trained is loaded once",
     .way_out = "remove every_steps, every_windows and every_epochs"},
};

}  // namespace

const RuleTable<LoadRecipe>& load_rules() {
  return kLoadRules;
}

const RuleTable<LoadRecipe>& main_load_rules() {
  return kMainLoadRules;
}

const RuleTable<LoadRecipe>& forward_load_rules() {
  return kForwardLoadRules;
}

}  // namespace tenon
