// SPDX-License-Identifier: Apache-2.0
//
// Rules across keys: keys that exclude, require or contradict each other. Each rule is stated once,
// in a table beside the rules of its section: the keys that it concerns, when they break it, what
// is wrong and what to do. The host checks it, and the schema that --print-schema prints derives
// from it if JSON Schema can state it.
//
//     const RuleTable<CheckpointRecipe> kRules = {
//         {.keys = {"keep_every_steps", "every_steps"},
//          .broken = [](const CheckpointRecipe& c) { return c.keep_every_steps > 0 && ...; },
//          .what = "keeps checkpoints by step, but checkpoint.every_steps is not set",
//          .way_out = "set checkpoint.every_steps"},
//     };
//
// A limit of one key is no rule: it stands where the key is bound (section.hpp). Rules that also
// depend on the data, the ranks or the components of a run are in run_rules.hpp.
// Threads: every function may be called from any thread.
#pragma once

#include "host/json/problem.hpp"
#include "host/recipe/bound_keys.hpp"
#include "host/recipe/recipe.hpp"
#include "host/recipe/recipe_key.hpp"

#include <algorithm>
#include <concepts>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// The keys of one section, for conditions and texts of rules. A key is relative to the section
// ("every_steps", "packing/length"), or absolute ("/data/eval"); "" is the section itself.
class RuleKeys {
 public:
  RuleKeys(const BoundKeys& bound, std::string pointer)
      : bound_(bound), pointer_(std::move(pointer)) {}

  std::string pointer(const std::string& key) const {
    return key.empty() ? pointer_ : key.front() == '/' ? key : pointer_ + "/" + key;
  }
  // See BoundKeys.
  bool has(const std::string& key) const { return bound_.has(pointer(key)); }
  bool is_given(const std::string& key) const { return bound_.is_given(pointer(key)); }
  bool is_set(const std::string& key) const { return bound_.is_set(pointer(key)); }
  bool is_unbound(const std::string& key) const { return bound_.is_unbound(pointer(key)); }
  std::string brief(const std::string& key) const { return bound_.brief(pointer(key)); }
  const Place& place(const std::string& key) const { return bound_.place(pointer(key)); }
  // Returns the place as text: "recipes/a.json:12", "--set #1".
  std::string place_text(const std::string& key) const { return place(key).text(); }

 private:
  const BoundKeys& bound_;
  const std::string pointer_;
};

// Returns the schema of values that `schema` rejects; null for null.
KeySchema negated(const KeySchema& schema);
// Returns {keyword: [a, b]}; null if one of the two is null.
KeySchema joined(const char* keyword, const KeySchema& a, const KeySchema& b);
// Returns the schema of objects with a key whose value `value` allows; `key` may be a path: "a/b".
KeySchema with_key(const std::string& key, const KeySchema& value);

// A condition on a section. `schema` allows the objects for which it holds; it is null if JSON
// Schema cannot state the condition.
template <class S>
struct Condition {
  std::function<bool(const S&, const RuleKeys&)> holds;
  KeySchema schema = nullptr;

  Condition(std::function<bool(const S&, const RuleKeys&)> f, KeySchema as_schema)
      : holds(std::move(f)), schema(std::move(as_schema)) {}
  template <std::predicate<const S&, const RuleKeys&> F>
  Condition(F f) : holds(std::move(f)) {}  // NOLINT(google-explicit-constructor): for tables
  template <std::predicate<const S&> F>
  Condition(F f)  // NOLINT(google-explicit-constructor): for tables
      : holds([f](const S& s, const RuleKeys&) { return f(s); }) {}

  Condition operator!() const {
    return {[f = holds](const S& s, const RuleKeys& keys) { return !f(s, keys); }, negated(schema)};
  }
  Condition operator&&(const Condition& other) const {
    return {[f = holds, g = other.holds](const S& s, const RuleKeys& keys) {
              return f(s, keys) && g(s, keys);
            },
            joined("allOf", schema, other.schema)};
  }
  Condition operator||(const Condition& other) const {
    return {[f = holds, g = other.holds](const S& s, const RuleKeys& keys) {
              return f(s, keys) || g(s, keys);
            },
            joined("anyOf", schema, other.schema)};
  }
};

// Conditions that JSON Schema can state. Keys are relative to the section.
template <class S>
struct When {
  // The key is written, with any value.
  static Condition<S> given(const std::string& key) {
    return {[key](const S&, const RuleKeys& keys) { return keys.is_given(key); },
            with_key(key, true)};
  }
  // The member has a value other than its initial one. `text` is this value in the recipe.
  template <class T>
  static Condition<S> is(const std::string& key, T S::*member, T value, const KeySchema& text) {
    return {[member, value](const S& s, const RuleKeys&) { return s.*member == value; },
            with_key(key, {{"const", text}})};
  }
  // The key is written, and is not null.
  static Condition<S> set(const std::string& key) {
    return {[key](const S&, const RuleKeys& keys) { return keys.is_set(key); },
            with_key(key, {{"not", {{"type", "null"}}}})};
  }
  // The list has entries.
  template <class T>
  static Condition<S> any_in(const std::string& key, std::vector<T> S::*member) {
    return {[member](const S& s, const RuleKeys&) { return !(s.*member).empty(); },
            with_key(key, {{"minItems", 1}})};
  }
};

// A text of a message: fixed, or from the values of the recipe.
template <class S>
class RuleText {
 public:
  RuleText(const char* text = "")  // NOLINT(google-explicit-constructor): for tables
      : of_([text](const S&, const RuleKeys&) { return std::string(text); }) {}
  RuleText(std::string text)  // NOLINT(google-explicit-constructor): for tables
      : of_([text = std::move(text)](const S&, const RuleKeys&) { return text; }) {}
  template <std::invocable<const S&, const RuleKeys&> F>
  RuleText(F f) : of_(std::move(f)) {}  // NOLINT(google-explicit-constructor): for tables

  std::string of(const S& s, const RuleKeys& keys) const { return of_(s, keys); }

 private:
  std::function<std::string(const S&, const RuleKeys&)> of_;
};

// How and where a rule is broken.
struct Violation {
  std::string key;
  std::string what;
  std::string way_out;
};

// Which other problems must be fixed first: the user sees these anyway.
enum class RuleWaits {
  kForValues,     // a key of the rule has a value that is not allowed
  kForKnownKeys,  // as before, or an unknown key looks like a key of the rule
  kForNothing,    // the rule concerns only whether keys are written
};

template <class S>
struct Rule {
  std::vector<std::string> keys;  // the problem is reported at the first
  Condition<S> broken = [](const S&) { return true; };
  RuleText<S> what = "";
  RuleText<S> way_out = "";
  const char* id = "recipe.contradiction";
  RuleText<S> expected = "";
  RuleText<S> found = "";
  RuleWaits waits = RuleWaits::kForValues;
  // Instead of `what` and `way_out`, for a rule that several entries of a list may break, or whose
  // place depends on the recipe. Rules over lists need no `broken`.
  std::function<std::vector<Violation>(const S&, const RuleKeys&)> find = {};
};

template <class S>
using RuleTable = std::vector<Rule<S>>;

// ---- rules that several sections share ----

// Two keys of the recipe, of which `brief` is short for `full`: not both, as `both` states it. The
// one written later is reported: it is usually the mistake, often made by a --set.
Rule<Recipe> not_both_forms(const std::string& brief,
                            const std::string& full,
                            const std::string& relation,
                            const Condition<Recipe>& both);
// At least one of the two.
Rule<Recipe> one_of_two_forms(const std::string& brief, const std::string& full);

// A named entry of a list, for rules about names.
struct NamedEntry {
  std::string name;     // "" if it is not known
  std::string pointer;  // "/losses/0"
};
// Returns a violation for each name that an earlier entry has; `kind` is "loss".
std::vector<Violation> duplicates(const std::vector<NamedEntry>& entries,
                                  const std::string& kind,
                                  const RuleKeys& keys);
// Returns the key to report a name at: the name if the user wrote it, else the entry.
std::string key_of_name(const NamedEntry& entry, const RuleKeys& keys);

// ---- the tables, in the order of checks ----

const RuleTable<Recipe>& models_rules();       // of `model` and `models`
const RuleTable<ModelUse>& model_rules();      // of each model
const RuleTable<DatasetUse>& dataset_rules();  // of each dataset or mix
const RuleTable<Recipe>& component_rules();    // of features, losses and metrics
const RuleTable<TableRecipe>& table_rules();   // of each table
const RuleTable<Recipe>& eval_rules();
const RuleTable<ExportRecipe>& export_rules();  // of each export
// Of the section "checkpoint", if it is not null: when to save; what to keep and roll back to.
const RuleTable<Recipe>& checkpoint_rules();
const RuleTable<Recipe>& retention_rules();
const RuleTable<LoadRecipe>& load_rules();          // of each load
const RuleTable<LoadRecipe>& main_load_rules();     // of the loads of the section "load"
const RuleTable<LoadRecipe>& forward_load_rules();  // of the loads of models without an optimizer
const RuleTable<TrainRecipe>& run_length_rules();
const RuleTable<TrainRecipe>& activation_rules();
const RuleTable<TrainRecipe>& update_rules();  // of updates in the backward
const RuleTable<Recipe>& training_rules();     // of `train` and other sections
const RuleTable<Recipe>& step_size_rules();

// Adds the violations of all rules to `problems`. `recipe` is as bound: `model` is the key "model",
// and `further_models` are all entries of "models".
void check_rules(const Recipe& recipe, const BoundKeys& keys, ProblemList& problems);

// Returns the rules of tables as one schema; null if JSON Schema can state none of them.
template <class S>
KeySchema printed_rules(const std::vector<const RuleTable<S>*>& tables) {
  KeySchema all = KeySchema::array();
  for (const RuleTable<S>* const table : tables) {
    for (const Rule<S>& rule : *table) {
      if (KeySchema kept = negated(rule.broken.schema); !kept.is_null()) {
        all.push_back(std::move(kept));
      }
    }
  }
  return all.empty() ? KeySchema(nullptr) : KeySchema{{"allOf", std::move(all)}};
}

}  // namespace tenon
