// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/contradiction.hpp"

#include "host/recipe/json_path.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/recipe/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxName = 100;
// It is a part of the names of figures, which may have 100 characters.
constexpr std::size_t kMaxEvalName = 40;
constexpr std::size_t kMaxTableName = 100;

class Rules {
 public:
  Rules(const json& root, const PlaceMap& places, std::vector<Problem>& problems)
      : root_(root), places_(places), problems_(problems) {}

  void check_models() {
    one_form("model", "models", "is short for one entry of \"models\" called \"main\"");
    const json* const models = object_at("/models");
    if (models != nullptr && models->empty()) {
      missing("/models", "model", "the model");
    } else if (models != nullptr && models->size() > 1) {
      not_available("/models", "several models", name_list(keys_of(*models)));
    }
    check_names("/models", models, kMaxName);
  }

  void check_datasets() {
    for (const std::string& pointer : dataset_pointers(root_)) {
      if (const json* const dataset = object_at(pointer)) {
        check_dataset(pointer, *dataset);
      }
    }
  }

  void check_features() { check_unique_names("/features", "feature", {}, type_name); }

  void check_losses() {
    one_form("loss", "losses", "is short for a list \"losses\" of one");
    check_unique_names("/losses", "loss", {}, type_name);
  }

  // A metric's figures are called by its name, beside those that each run has.
  void check_metrics() {
    check_unique_names("/metrics",
                       "metric",
                       {"aux",
                        "data_wait_seconds",
                        "eval",
                        "grad_norm",
                        "loss",
                        "lr",
                        "next",
                        "non_finite_steps",
                        "roll_backs",
                        "samples_per_second",
                        "step_seconds",
                        "test",
                        "tokens_per_second"},
                       type_name);
  }

  void check_tables() {
    const json* const tables = object_at("/tables");
    for (const std::string& name :
         tables != nullptr ? keys_of(*tables) : std::vector<std::string>()) {
      const std::string pointer = join_pointer("/tables", name);
      const bool is_pattern = name.find_first_of("*?") != std::string::npos;
      const bool is_good =
          !name.empty() && name.size() <= kMaxTableName && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || c == '-' || c == '.' || c == '*' || c == '?';
          });
      if (!is_good) {
        add("recipe.bad_value", pointer, "not a name of a table", "");
        problems_.back().expected = "letters, digits, '_', '-' and '.', at most " +
                                    std::to_string(kMaxTableName) +
                                    ", or a pattern with '*' and '?'";
        problems_.back().found = brief_value(name);
      }
      if (is_pattern && find_at(root_, pointer + "/features") != nullptr) {
        add("recipe.contradiction",
            pointer + "/features",
            "a pattern cannot take in other tables",
            "it says what the tables have in common that it matches; give the shared table a name");
      }
    }
  }

  void check_eval() {
    for (const char* const list : {"/data/eval", "/data/test"}) {
      const json* const sets = object_at(list);
      if (sets != nullptr && !is_single_dataset(*sets)) {
        check_names(list, sets, kMaxEvalName);
      }
    }
    check_keep_best();
    const json* const given = find_at(root_, "/data/eval");
    if (given == nullptr || !given->is_null()) {
      return;
    }
    for (const char* const key : {"every_steps",
                                  "every_windows",
                                  "every_epochs",
                                  "at_start",
                                  "at_end",
                                  "with_window",
                                  "keep_best"}) {
      const std::string pointer = join_pointer("/eval", key);
      const json* const wish = find_at(root_, pointer);
      const bool is_asked = wish != nullptr && !places_.is_default(pointer) &&
                            ((wish->is_boolean() && wish->get<bool>()) || wish->is_string() ||
                             wish->is_object() || (wish->is_number() && wish->get<double>() > 0));
      if (is_asked) {
        add("recipe.contradiction",
            pointer,
            "asks for an evaluation, but there is no dataset for it",
            "name one in /data/eval, or remove the key");
      }
    }
  }

  // The best of what is never evaluated is nothing.
  void check_keep_best() {
    const std::string pointer = "/eval/keep_best";
    if (object_at(pointer) == nullptr) {
      return;
    }
    check_best_metric(pointer);
    if (!is_evaluated_on_the_way() && !has_hooks()) {
      add("recipe.contradiction",
          pointer,
          "keeps the best of several evaluations, and there are none before the end",
          "give one of eval.every_steps, eval.every_windows and eval.every_epochs");
    }
  }

  // What is saved, and when; the best is asked for in the same way as in /eval.
  void check_checkpoint() {
    if (object_at("/checkpoint") == nullptr) {
      return;
    }
    const auto count = [this](const char* key) {
      return integer_at(join_pointer("/checkpoint", key)).value_or(0);
    };
    const auto is_on = [this](const char* key) {
      const json* const value = find_at(root_, join_pointer("/checkpoint", key));
      return value != nullptr && value->is_boolean() && value->get<bool>();
    };
    const json* const minutes = find_at(root_, "/checkpoint/every_minutes");
    const bool is_scheduled = count("every_steps") > 0 || count("every_windows") > 0 ||
                              count("every_epochs") > 0 ||
                              (minutes != nullptr && minutes->is_number());
    check_exports();
    const json* const exports = find_at(root_, "/checkpoint/exports");
    const bool has_exports = exports != nullptr && exports->is_array() && !exports->empty();
    if (!is_scheduled && !has_exports && !is_on("at_start") && !is_on("at_end") &&
        !is_on("on_signal") && !has_hooks()) {
      add("recipe.contradiction",
          "/checkpoint",
          "nothing in it ever saves a checkpoint",
          "give one of every_steps, every_windows, every_epochs, every_minutes, at_start, at_end, "
          "on_signal and exports, or remove the section");
    }
    check_kept(count("every_steps"), count("keep_last"));
    const bool goes_back = string_at("/checkpoint/on_spike") == "roll_back";
    if (goes_back && !has_hooks() && string_at("/train/non_finite/policy") == "ignore") {
      add("recipe.contradiction",
          "/checkpoint/on_spike",
          "goes back where an update is not finite, which /train/non_finite/policy ignores",
          "give the policy \"skip\" or \"stop\", or a hook that sees spikes, such as spike_guard");
    }
    if (goes_back && !is_scheduled && !is_on("at_start") && !has_hooks()) {
      add("recipe.contradiction",
          "/checkpoint/on_spike",
          "goes back to a checkpoint, but none is saved before the end",
          "give one of every_steps, every_windows, every_epochs, every_minutes and at_start");
    }
  }

  void check_load() {
    const json* const loads = find_at(root_, "/load");
    for (std::size_t i = 0; loads != nullptr && loads->is_array() && i < loads->size(); ++i) {
      if ((*loads)[i].is_object()) {
        check_parts_of_load((*loads)[i], join_pointer("/load", i));
        check_renames((*loads)[i], join_pointer("/load", i));
      }
    }
  }

  void check_horizon() {
    if (object_at("/train") == nullptr) {
      return;
    }
    const std::optional<std::int64_t> steps = integer_at("/train/steps");
    const bool has_horizon = std::ranges::any_of(
        std::initializer_list<const char*>{
            "/train/steps", "/train/epochs", "/train/windows", "/train/tokens", "/train/minutes"},
        [this](const char* pointer) {
          const json* const value = find_at(root_, pointer);
          return value != nullptr && !value->is_null();
        });
    if (!has_horizon && !explains_missing_horizon()) {
      add("recipe.no_horizon",
          "/train",
          "nothing says when training ends",
          "give at least one of: steps, epochs, windows, tokens, minutes");
    }
    const std::optional<std::int64_t> total = integer_at("/train/total_steps");
    if (steps && total && *steps != *total) {
      add("recipe.contradiction",
          "/train/total_steps",
          "the schedule's length is " + std::to_string(*total) + ", but the horizon is " +
              std::to_string(*steps) + " steps",
          "the horizon in steps is the schedule's length; remove one of the two (steps is at " +
              places_.at("/train/steps").text() + ")");
    }
  }

  void check_batches() {
    const std::optional<std::int64_t> global = integer_at("/train/global_batch_size");
    if (!global) {
      return;
    }
    const std::optional<std::int64_t> accumulation = integer_at("/train/gradient_accumulation");
    if (accumulation && !places_.is_default("/train/gradient_accumulation")) {
      add("recipe.contradiction",
          "/train/gradient_accumulation",
          "given beside global_batch_size, from which it follows",
          "remove one of the two (global_batch_size is at " +
              places_.at("/train/global_batch_size").text() + ")");
    }
    const std::optional<std::int64_t> batch = integer_at("/data/batch_size");
    if (batch && *batch > 0 && *global > 0 && *global % *batch != 0) {
      const std::string quotient = std::to_string(*global / *batch);
      add("recipe.indivisible",
          "/train/global_batch_size",
          "a step of " + std::to_string(*global) + " samples cannot be made of microbatches of " +
              std::to_string(*batch),
          std::to_string(*global) + " = " + quotient + " * " + std::to_string(*batch) + " + " +
              std::to_string(*global % *batch) + "; choose a multiple of data.batch_size (at " +
              places_.at("/data/batch_size").text() + ")");
    }
  }

 private:
  void check_best_metric(const std::string& pointer) {
    const std::optional<std::string> metric = string_at(pointer + "/metric");
    if (metric && !metric->starts_with("eval/")) {
      add("recipe.bad_value",
          pointer + "/metric",
          "not a figure of an evaluation of data.eval",
          "the names of those begin with \"eval/\": \"eval/loss\"");
    }
  }

  bool has_hooks() const {
    const json* const hooks = find_at(root_, "/hooks");
    return hooks != nullptr && hooks->is_array() && !hooks->empty();
  }

  bool is_evaluated_on_the_way() const {
    return std::ranges::any_of(
        std::initializer_list<const char*>{
            "/eval/every_steps", "/eval/every_windows", "/eval/every_epochs"},
        [this](const char* every) { return integer_at(every).value_or(0) > 0; });
  }

  // Each is made at some time, and has a folder of its own.
  void check_exports() {
    const json* const exports = find_at(root_, "/checkpoint/exports");
    if (exports == nullptr || !exports->is_array()) {
      return;
    }
    std::set<std::string> formats;
    for (std::size_t i = 0; i < exports->size(); ++i) {
      const std::string pointer = join_pointer("/checkpoint/exports", i);
      const auto every = [&](const char* key) {
        return integer_at(join_pointer(pointer, key)).value_or(0) > 0;
      };
      const json* const at_end = find_at(root_, join_pointer(pointer, "at_end"));
      const bool is_at_end = at_end != nullptr && at_end->is_boolean() && at_end->get<bool>();
      if (!every("every_steps") && !every("every_windows") && !every("every_epochs") &&
          !is_at_end) {
        add("recipe.contradiction",
            pointer,
            "nothing in it ever makes an export",
            "give one of every_steps, every_windows, every_epochs and at_end, or remove it");
      }
      const auto format = string_at(join_pointer(pointer, "format"));
      if (format && !formats.insert(*format).second) {
        add("recipe.contradiction",
            join_pointer(pointer, "format"),
            "\"" + *format + "\" is there twice, and has one folder",
            "give one export of that format all the times at which it is made");
      }
    }
  }

  // Rules that keep what would be kept anyway, or what is never there, have no effect.
  void check_kept(std::int64_t every_steps, std::int64_t keep_last) {
    const std::string by_step = "/checkpoint/keep_every_steps";
    const std::int64_t multiple = integer_at(by_step).value_or(0);
    if (multiple > 0 && every_steps <= 0) {
      add("recipe.contradiction",
          by_step,
          "keeps checkpoints by their step, but none is saved by steps",
          "give checkpoint.every_steps, of which it is a multiple");
    } else if (multiple > 0 && multiple % every_steps != 0) {
      add("recipe.contradiction",
          by_step,
          "keeps the checkpoints of each " + std::to_string(multiple) +
              "th step, but they are saved every " + std::to_string(every_steps) + " steps",
          "choose a multiple of checkpoint.every_steps (at " +
              places_.at("/checkpoint/every_steps").text() + ")");
    }
    const std::string best = "/checkpoint/keep_best";
    const bool has_best = object_at(best) != nullptr;
    if (has_best) {
      check_best_metric(best);
      const json* const eval = find_at(root_, "/data/eval");
      if (eval != nullptr && eval->is_null()) {
        add("recipe.contradiction",
            best,
            "keeps the best by an evaluation, but there is no dataset for it",
            "name one in /data/eval, or remove the key");
      } else if (eval != nullptr && !is_evaluated_on_the_way() && !has_hooks()) {
        add("recipe.contradiction",
            best,
            "keeps the best of several evaluations, and there are none before the end",
            "give one of eval.every_steps, eval.every_windows and eval.every_epochs");
      }
    }
    if (keep_last == 0 && !places_.is_default("/checkpoint/keep_last")) {
      for (const std::string& pointer : {by_step, best}) {
        if (pointer == best ? has_best : multiple > 0) {
          add("recipe.contradiction",
              pointer,
              "says what is kept beside the newest, but all are kept",
              "give a checkpoint.keep_last above 0, or remove the key");
        }
      }
    }
  }

  using NameOf = std::string (*)(const std::string& type, std::size_t number);

  static std::string type_name(const std::string& type, std::size_t) { return default_name(type); }

  // One dataset, or a mix.
  void check_dataset(const std::string& pointer, const json& dataset) {
    if (!dataset.contains("mix")) {
      if (!dataset.contains("type")) {
        missing(join_pointer(pointer, "type"), "dataset", "or a mix of several: {\"mix\": [...]}");
        problems_.back().place = places_.written_at(pointer);
      }
      if (dataset.contains("when_one_ends")) {
        add("recipe.contradiction",
            join_pointer(pointer, "when_one_ends"),
            "says what becomes of a mix, but there is one dataset",
            "remove the key, or give \"mix\" in place of \"type\"");
      }
      return;
    }
    for (const char* const key : {"type", "options"}) {
      const std::string at = join_pointer(pointer, key);
      if (dataset.contains(key) && !places_.is_default(at)) {
        add("recipe.contradiction",
            at,
            std::string("both \"") + key + "\" and \"mix\"",
            std::string("each entry of \"mix\" has its own; remove \"") + key +
                "\" or \"mix\" (at " + places_.at(join_pointer(pointer, "mix")).text() + ")");
      }
    }
    const json& mix = dataset["mix"];
    const std::string list = join_pointer(pointer, "mix");
    check_unique_names(list, "source", {}, mix_name);
    const auto is_off = [](const json& entry) {
      return entry.is_object() && entry.contains("weight") && entry["weight"].is_number() &&
             entry["weight"].get<double>() == 0;
    };
    if (mix.is_array() && !mix.empty() && std::ranges::all_of(mix, is_off)) {
      add("recipe.bad_value", list, "all weights are 0", "give one source at least a weight");
    }
  }

  void check_unique_names(const std::string& list,
                          const std::string& kind,
                          const std::set<std::string>& taken,
                          NameOf name_of) {
    const json* const nodes = find_at(root_, list);
    if (nodes == nullptr || !nodes->is_array()) {
      return;
    }
    std::map<std::string, std::string> first;  // from name to pointer
    for (std::size_t i = 0; i < nodes->size(); ++i) {
      const std::string pointer = join_pointer(list, i);
      const std::optional<std::string> type = string_at(pointer + "/type");
      const std::optional<std::string> own = string_at(pointer + "/name");
      if (!type && !own) {
        continue;
      }
      const std::string name = own ? *own : name_of(*type, i);
      const std::string at = own ? pointer + "/name" : pointer;
      const auto [known, is_new] = first.emplace(name, pointer);
      if (taken.contains(name)) {
        add("recipe.duplicate_name",
            at,
            "a " + kind + " called \"" + name + "\", as a figure is that each run has",
            "give it another \"name\"");
      } else if (!is_new) {
        add("recipe.duplicate_name",
            at,
            "a second " + kind + " called \"" + name + "\"",
            "the first is " + known->second + " at " + places_.at(known->second).text() +
                "; give each a \"name\" of its own");
      }
    }
  }

  void check_parts_of_load(const json& load, const std::string& pointer) {
    const json* const parts = find_at(load, "/parts");
    if (parts == nullptr || !parts->is_array() ||
        std::ranges::find(*parts, "data") == parts->end()) {
      return;
    }
    for (const char* const every : {"every_steps", "every_windows", "every_epochs"}) {
      const std::string at = join_pointer(pointer, every);
      if (integer_at(at).value_or(0) > 0) {
        add("recipe.contradiction",
            at,
            "loads the position of the data again while it is read",
            "take \"data\" out of parts, or load it in an entry of its own, once");
      }
    }
    if (parts->size() == 1) {
      for (const char* const names : {"match", "exclude", "rename"}) {
        const json* const given = find_at(load, join_pointer("", names));
        if (given != nullptr && given->is_array() && !given->empty() &&
            *given != json::array({"*"})) {
          add("recipe.contradiction",
              join_pointer(pointer, names),
              "is about names, and the position of the data has none",
              "remove it, or add to parts what it is about");
        }
      }
    }
  }

  // What a '*' was there has a '*' to go to.
  void check_renames(const json& load, const std::string& pointer) {
    const json* const renames = find_at(load, "/rename");
    for (std::size_t i = 0; renames != nullptr && renames->is_array() && i < renames->size(); ++i) {
      const std::string at = join_pointer(pointer + "/rename", i);
      const auto from = string_at(at + "/from");
      const auto to = string_at(at + "/to");
      if (from && to && std::ranges::count(*from, '*') != std::ranges::count(*to, '*')) {
        add("recipe.contradiction",
            at + "/to",
            "another number of '*' than \"" + *from + "\" has",
            "each '*' of \"from\" is any text, which stands in the '*' of \"to\" at the same "
            "place");
      }
    }
  }

  const json* object_at(const std::string& pointer) const {
    const json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_object() ? value : nullptr;
  }

  std::optional<std::int64_t> integer_at(const std::string& pointer) const {
    const json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_number_integer()
               ? std::optional(value->get<std::int64_t>())
               : std::nullopt;
  }

  std::optional<std::string> string_at(const std::string& pointer) const {
    const json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_string() ? std::optional(value->get<std::string>())
                                                  : std::nullopt;
  }

  void add(const char* id, const std::string& pointer, std::string what, std::string note) {
    problems_.push_back({.id = id,
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = std::move(what),
                         .note = std::move(note)});
  }

  void missing(const std::string& pointer, const std::string& kind, const std::string& meaning) {
    add("recipe.missing_key", pointer, "missing key", meaning);
    problems_.back().expected = "a " + kind + ": {\"type\": ..., \"options\": {...}}";
  }

  void not_available(const std::string& pointer,
                     const std::string& what,
                     const std::string& found) {
    add("recipe.not_available",
        pointer,
        "this release does not have " + what + " yet",
        "keep one; nothing that is asked for is silently ignored");
    problems_.back().found = found;
  }

  // A short form and a long one for the same thing: exactly one of them.
  void one_form(const std::string& brief, const std::string& full, const std::string& relation) {
    const bool has_brief = root_.contains(brief);
    const bool has_full = root_.contains(full);
    if (has_brief && has_full) {
      // The later one is the one that was added by mistake, often by a --set.
      const bool is_full_later =
          places_.at("/" + brief).sort_key() < places_.at("/" + full).sort_key();
      const std::string& later = is_full_later ? full : brief;
      const std::string& earlier = is_full_later ? brief : full;
      add("recipe.contradiction",
          "/" + later,
          "both \"" + brief + "\" and \"" + full + "\"",
          "\"" + brief + "\" " + relation + "; keep \"" + earlier + "\" (at " +
              places_.at("/" + earlier).text() + ") or \"" + later + "\"");
    } else if (!has_brief && !has_full) {
      missing("/" + brief, brief, "the " + brief);
    }
  }

  // Names become parts of file names and of the names of metrics.
  void check_names(const std::string& pointer, const json* named, std::size_t max_size) {
    for (const std::string& name :
         named != nullptr ? keys_of(*named) : std::vector<std::string>()) {
      const bool is_good =
          !name.empty() && name.size() <= max_size && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || c == '-';
          });
      if (!is_good) {
        add("recipe.bad_value", join_pointer(pointer, name), "not a name", "");
        problems_.back().expected =
            "letters, digits, '_' and '-', at most " + std::to_string(max_size);
        problems_.back().found = brief_value(name);
      }
    }
  }

  // A misspelt horizon has been reported as what it is.
  bool explains_missing_horizon() const {
    constexpr std::array kHorizons = {
        "\"steps\"", "\"epochs\"", "\"windows\"", "\"tokens\"", "\"minutes\""};
    return std::ranges::any_of(problems_, [&](const Problem& problem) {
      return problem.id == "recipe.unknown_key" && problem.pointer.starts_with("/train/") &&
             std::ranges::any_of(kHorizons, [&problem](const char* name) {
               return problem.hint.find(name) != std::string::npos;
             });
    });
  }

  const json& root_;
  const PlaceMap& places_;
  std::vector<Problem>& problems_;
};

}  // namespace

void check_contradictions(const json& root,
                          const PlaceMap& places,
                          std::vector<Problem>& problems) {
  Rules rules(root, places, problems);
  rules.check_models();
  rules.check_datasets();
  rules.check_features();
  rules.check_losses();
  rules.check_metrics();
  rules.check_tables();
  rules.check_eval();
  rules.check_checkpoint();
  rules.check_load();
  rules.check_horizon();
  rules.check_batches();
}

std::string default_name(const std::string& type) {
  const std::size_t slash = type.rfind('/');
  return as_name(slash == std::string::npos ? type : type.substr(slash + 1));
}

}  // namespace tenon
