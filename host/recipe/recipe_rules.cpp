// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_rules.hpp"

#include "host/json/json_path.hpp"
#include "host/text/formatted.hpp"

#include <map>
#include <utility>

namespace tenon {
namespace {

// True if an unknown key of the section looks like one of the rule's keys, which is then reported.
bool is_misspelled(const std::vector<std::string>& rule_keys,
                   const RuleKeys& keys,
                   const ProblemList& problems) {
  const std::string below = keys.pointer("") + "/";
  return std::ranges::any_of(problems.kept(), [&](const Problem& problem) {
    return problem.id == "recipe.unknown_key" && problem.pointer.starts_with(below) &&
           std::ranges::any_of(rule_keys, [&](const std::string& key) {
             std::string dotted = keys.pointer(key).substr(1);
             std::ranges::replace(dotted, '/', '.');
             return problem.hint.find("\"" + key + "\"") != std::string::npos ||
                    problem.note.find("\"" + dotted + "\"") != std::string::npos;
           });
  });
}

// Checks tables of rules, and adds violations to a list of problems.
class RuleCheck {
 public:
  RuleCheck(const BoundKeys& bound, ProblemList& problems) : bound_(bound), problems_(problems) {}

  template <class S>
  void check(const RuleTable<S>& table, const S& section, const std::string& pointer) {
    const RuleKeys keys(bound_, pointer);
    if (keys.is_unbound("")) {
      return;
    }
    for (const Rule<S>& rule : table) {
      check_rule(rule, section, keys);
    }
  }

 private:
  template <class S>
  void check_rule(const Rule<S>& rule, const S& section, const RuleKeys& keys) {
    const bool has_problem = std::ranges::any_of(
        rule.keys, [&keys](const std::string& key) { return keys.is_unbound(key); });
    if (rule.waits != RuleWaits::kForNothing && has_problem) {
      return;
    }
    if (!rule.broken.holds(section, keys) ||
        (rule.waits == RuleWaits::kForKnownKeys && is_misspelled(rule.keys, keys, problems_))) {
      return;
    }
    if (rule.find) {
      for (const Violation& violation : rule.find(section, keys)) {
        add(rule, section, keys, violation);
      }
      return;
    }
    add(rule,
        section,
        keys,
        {.key = rule.keys.front(),
         .what = rule.what.of(section, keys),
         .way_out = rule.way_out.of(section, keys)});
  }

  template <class S>
  void add(const Rule<S>& rule, const S& section, const RuleKeys& keys, const Violation& found) {
    problems_.push_back({.id = rule.id,
                         .place = keys.place(found.key),
                         .pointer = keys.pointer(found.key),
                         .what = found.what,
                         .expected = rule.expected.of(section, keys),
                         .found = rule.found.of(section, keys),
                         .note = found.way_out});
  }

  const BoundKeys& bound_;
  ProblemList& problems_;
};

void check_models(const Recipe& recipe, const BoundKeys& keys, RuleCheck& rules) {
  rules.check(models_rules(), recipe, "");
  if (keys.has("/model")) {
    ModelUse model = recipe.model;
    model.is_trained = true;  // a rule of `models_rules` rejects another value
    rules.check(model_rules(), model, "/model");
  }
  for (const ModelUse& model : recipe.further_models) {
    const std::string pointer = join_pointer("/models", model.name);
    rules.check(model_rules(), model, pointer);
    for (const LoadRecipe& load : model.load) {
      if (!model.is_trained) {
        rules.check(load_rules(), load, load.pointer);
        rules.check(forward_load_rules(), load, load.pointer);
      }
    }
  }
}

void check_data(const Recipe& recipe, const BoundKeys& keys, RuleCheck& rules) {
  if (keys.has("/data/train")) {
    rules.check(dataset_rules(), recipe.data.train, "/data/train");
  }
  for (const std::vector<EvalSetUse>* const sets : {&recipe.data.eval, &recipe.data.test}) {
    for (const EvalSetUse& set : *sets) {
      const std::string list = join_pointer("/data", set.list);
      rules.check(
          dataset_rules(), set.data, set.name.empty() ? list : join_pointer(list, set.name));
    }
  }
  rules.check(component_rules(), recipe, "");
  for (const TableRecipe& table : recipe.tables) {
    rules.check(table_rules(), table, join_pointer("/tables", table.name));
  }
}

void check_saves(const Recipe& recipe, RuleCheck& rules) {
  rules.check(eval_rules(), recipe, "");
  if (recipe.checkpoint) {
    for (std::size_t i = 0; i < recipe.checkpoint->exports.size(); ++i) {
      rules.check(
          export_rules(), recipe.checkpoint->exports[i], join_pointer("/checkpoint/exports", i));
    }
    rules.check(checkpoint_rules(), recipe, "");
    rules.check(retention_rules(), recipe, "");
  }
  for (const LoadRecipe& load : recipe.load) {
    rules.check(main_load_rules(), load, load.pointer);
    rules.check(load_rules(), load, load.pointer);
  }
}

}  // namespace

KeySchema negated(const KeySchema& schema) {
  if (schema.is_null()) {
    return nullptr;
  }
  if (schema.size() == 1 && schema.contains("not")) {
    return schema.at("not");
  }
  for (const auto& [from, to] : {std::pair("allOf", "anyOf"), std::pair("anyOf", "allOf")}) {
    if (schema.size() == 1 && schema.contains(from)) {
      KeySchema parts = KeySchema::array();
      for (const KeySchema& part : schema.at(from)) {
        parts.push_back(negated(part));
      }
      return {{to, std::move(parts)}};
    }
  }
  return {{"not", schema}};
}

KeySchema joined(const char* keyword, const KeySchema& a, const KeySchema& b) {
  if (a.is_null() || b.is_null()) {
    return nullptr;
  }
  return {{keyword, KeySchema::array({a, b})}};
}

KeySchema with_key(const std::string& key, const KeySchema& value) {
  const std::size_t slash = key.find('/');
  const std::string name = key.substr(0, slash);
  const KeySchema below =
      slash == std::string::npos ? value : with_key(key.substr(slash + 1), value);
  KeySchema schema = {{"required", KeySchema::array({name})}};
  if (below != KeySchema(true)) {
    schema["properties"][name] = below;
  }
  return schema;
}

Rule<Recipe> not_both_forms(const std::string& brief,
                            const std::string& full,
                            const std::string& relation,
                            const Condition<Recipe>& both) {
  return {.keys = {full, brief},
          .broken = both,
          .waits = RuleWaits::kForNothing,
          .find = [brief, full, relation](const Recipe&, const RuleKeys& keys) {
            const bool is_full_later = keys.place(brief).sort_key() < keys.place(full).sort_key();
            const std::string& later = is_full_later ? full : brief;
            const std::string& earlier = is_full_later ? brief : full;
            return std::vector<Violation>{
                {.key = later,
                 .what = "both \"" + brief + "\" and \"" + full + "\"",
                 .way_out = formatted("\"{}\" {}; keep \"{}\" (at {}) or \"{}\"",
                                      brief,
                                      relation,
                                      earlier,
                                      keys.place_text(earlier),
                                      later)}};
          }};
}

Rule<Recipe> one_of_two_forms(const std::string& brief, const std::string& full) {
  return {.keys = {brief, full},
          .broken = !When<Recipe>::given(brief) && !When<Recipe>::given(full),
          .what = "missing key",
          .way_out = "the " + brief,
          .id = "recipe.missing_key",
          .expected = "a " + brief + ": {\"type\": ..., \"options\": {...}}",
          .waits = RuleWaits::kForNothing};
}

std::string key_of_name(const NamedEntry& entry, const RuleKeys& keys) {
  const std::string name = join_pointer(entry.pointer, "name");
  return keys.is_given(name) ? name : entry.pointer;
}

std::vector<Violation> duplicates(const std::vector<NamedEntry>& entries,
                                  const std::string& kind,
                                  const RuleKeys& keys) {
  std::map<std::string, std::string> first;  // from name to pointer
  std::vector<Violation> found;
  for (const NamedEntry& entry : entries) {
    const auto [known, is_new] = first.emplace(entry.name, entry.pointer);
    if (!is_new && !entry.name.empty()) {
      found.push_back({.key = key_of_name(entry, keys),
                       .what = "a second " + kind + " named \"" + entry.name + "\"",
                       .way_out = "the first is " + known->second + " at " +
                                  keys.place_text(known->second) + "; give each its own \"name\""});
    }
  }
  return found;
}

void check_rules(const Recipe& recipe, const BoundKeys& keys, ProblemList& problems) {
  RuleCheck rules(keys, problems);
  check_models(recipe, keys, rules);
  check_data(recipe, keys, rules);
  check_saves(recipe, rules);
  if (keys.has("/train")) {
    rules.check(run_length_rules(), recipe.train, "/train");
    rules.check(activation_rules(), recipe.train, "/train");
    rules.check(update_rules(), recipe.train, "/train");
  }
  rules.check(training_rules(), recipe, "");
  rules.check(step_size_rules(), recipe, "");
}

}  // namespace tenon
