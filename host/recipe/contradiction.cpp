// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/contradiction.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/eval_sites.hpp"
#include "host/recipe/recipe_schema.hpp"
#include "host/recipe/rule_context.hpp"
#include "host/recipe/step_size.hpp"
#include "host/text/formatted.hpp"
#include "host/text/metric_name.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxName = 100;
// Shorter, because it is part of metric names, which may have 100 characters.
constexpr std::size_t kMaxEvalName = 40;
constexpr std::size_t kMaxTableName = 100;
constexpr std::array kRunLengths = {"steps", "epochs", "windows", "tokens", "minutes"};

bool never_taken(std::string_view) {
  return false;
}

class Rules : RuleContext {
 public:
  using RuleContext::RuleContext;

  void check_models() {
    const json* const models = object_at("/models");
    std::vector<std::string> trained;
    std::vector<std::string> further;
    for (const std::string& name :
         models != nullptr ? keys_of(*models) : std::vector<std::string>()) {
      (is_false(join_pointer("/models", name) + "/optimizer") ? further : trained).push_back(name);
    }
    const bool are_both = root_.contains("model") && root_.contains("models");
    if (!are_both || !trained.empty() || further.empty()) {
      one_form("model", "models", "is short for one entry of \"models\" named \"main\"");
    } else if (models->contains("main")) {
      conflict("/models/main", "duplicate model", "\"model\" is short for a model named \"main\"");
    }
    if (models != nullptr && models->empty()) {
      missing("/models", "model", "the model");
    } else if (models != nullptr && trained.size() > 1) {
      not_available("/models", "several models with an optimizer", name_list(trained));
      problems_.back().note =
          "set \"optimizer\": false for each model that only runs forward, such as a reference";
    } else if (models != nullptr && !are_both && trained.empty()) {
      conflict("/models",
               "no model has an optimizer",
               "remove \"optimizer\": false from the model to train");
    }
    if (is_false("/model/optimizer")) {
      conflict("/model/optimizer",
               "the model of a run without \"models\" is trained",
               "remove the key; name models that only run forward in \"models\"");
    }
    check_trained("/model");
    for (const std::string& name : trained) {
      check_trained(join_pointer("/models", name));
    }
    for (const std::string& name : further) {
      check_further(join_pointer("/models", name));
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

  void check_features() { check_unique_names("/features", "feature", never_taken, type_name); }

  void check_losses() {
    one_form("loss", "losses", "is short for a list \"losses\" of one");
    check_unique_names("/losses", "loss", never_taken, type_name);
  }

  // A metric's name prefixes its values, beside the built-in metrics.
  void check_metrics() { check_unique_names("/metrics", "metric", is_host_metric, type_name); }

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
        add("recipe.bad_value", pointer, "invalid table name", "");
        problems_.back().expected = formatted(
            "letters, digits, '_', '-' and '.', at most {}, or a pattern with '*' and '?'",
            kMaxTableName);
        problems_.back().found = brief_value(name);
      }
      if (is_pattern && find_at(root_, pointer + "/features") != nullptr) {
        conflict(pointer + "/features",
                 "a pattern cannot have \"features\"",
                 "a pattern sets defaults for the tables it matches; give the shared table a name");
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
      const json* const value = find_at(root_, pointer);
      const bool is_asked =
          value != nullptr && !places_.is_default(pointer) && !names_next_window(pointer) &&
          ((value->is_boolean() && value->get<bool>()) || value->is_string() ||
           value->is_object() || (value->is_number() && value->get<double>() > 0));
      if (is_asked) {
        conflict(pointer,
                 "requests an evaluation, but data.eval is null",
                 "set data.eval, or remove the key");
      }
    }
  }

  // Requires evaluations to choose the best from.
  void check_keep_best() {
    const std::string pointer = "/eval/keep_best";
    if (object_at(pointer) == nullptr) {
      return;
    }
    check_best_metric(pointer);
    if (!is_scheduled("/eval") && !has_entries("/hooks")) {
      conflict(pointer,
               "needs evaluations during the run, but none is scheduled",
               "set one of eval.every_steps, eval.every_windows and eval.every_epochs");
    }
  }

  // Requires that the section saves something, and that retention applies to saved checkpoints.
  void check_checkpoint() {
    if (object_at("/checkpoint") == nullptr) {
      return;
    }
    const auto count = [this](const char* key) {
      return integer_at(join_pointer("/checkpoint", key)).value_or(0);
    };
    const json* const minutes = find_at(root_, "/checkpoint/every_minutes");
    const bool is_regular =
        is_scheduled("/checkpoint") || (minutes != nullptr && minutes->is_number());
    check_exports();
    const bool has_exports = has_entries("/checkpoint/exports");
    if (!is_regular && !has_exports && !is_true("/checkpoint/at_start") &&
        !is_true("/checkpoint/at_end") && !is_true("/checkpoint/on_signal") &&
        !has_entries("/hooks")) {
      conflict(
          "/checkpoint",
          "the section never saves a checkpoint",
          "set one of every_steps, every_windows, every_epochs, every_minutes, at_start, at_end, "
          "on_signal and exports, or set the section to null");
    }
    check_kept(count("every_steps"), count("keep_last"));
    const bool rolls_back = string_at("/checkpoint/on_spike") == "roll_back";
    if (rolls_back && !has_entries("/hooks") && string_at("/train/non_finite/policy") == "ignore") {
      conflict(
          "/checkpoint/on_spike",
          "rolls back on non-finite updates, but train.non_finite.policy is \"ignore\"",
          "set the policy to \"skip\" or \"stop\", or add a hook that reports loss spikes, such as "
          "spike_guard");
    }
    if (rolls_back && !is_regular && !is_true("/checkpoint/at_start") && !has_entries("/hooks")) {
      conflict("/checkpoint/on_spike",
               "rolls back to a checkpoint, but none is saved before the end",
               "set one of every_steps, every_windows, every_epochs, every_minutes and at_start");
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
    const bool has_horizon = std::ranges::any_of(kRunLengths, [this](const char* name) {
      const json* const value = find_at(root_, join_pointer("/train", name));
      return value != nullptr && !value->is_null();
    });
    if (!has_horizon && !explains_missing_horizon()) {
      add("recipe.no_horizon",
          "/train",
          "no run length",
          "set at least one of steps, epochs, windows, tokens and minutes");
    }
    const std::optional<std::int64_t> total = integer_at("/train/total_steps");
    if (steps && total && *steps != *total) {
      conflict(
          "/train/total_steps",
          formatted("the schedule has {} steps, but the run has {}", *total, *steps),
          "a run length in steps is the schedule's length too; remove one of the two (steps is "
          "at " +
              places_.at("/train/steps").text() + ")");
    }
  }

 private:
  // Rejects keys of a model that is not trained.
  void check_trained(const std::string& pointer) {
    if (find_at(root_, pointer + "/parameters_of") != nullptr) {
      conflict(pointer + "/parameters_of",
               "only a model without an optimizer can share parameters",
               "remove the key, or set \"optimizer\": false");
    }
    const json* const loads = find_at(root_, pointer + "/load");
    if (loads != nullptr && !loads->is_null() && !(loads->is_array() && loads->empty())) {
      not_available(pointer + "/load", "loading by model", brief_value(*loads));
      problems_.back().note =
          "use the recipe's section \"load\" to initialize the trained model from other runs";
    }
  }

  // Such a model has only the values that it loads, and they never change.
  void check_further(const std::string& pointer) {
    const json* const loads = find_at(root_, pointer + "/load");
    const bool shares = find_at(root_, pointer + "/parameters_of") != nullptr;
    if (shares && loads != nullptr) {
      conflict(pointer + "/load",
               "a model with \"parameters_of\" reads those of the trained model",
               "remove \"load\" or \"parameters_of\"");
    }
    if (shares && has_entries(pointer + "/parametrizations")) {
      conflict(pointer + "/parametrizations",
               "a model with \"parameters_of\" reads those of the trained model",
               "remove \"parametrizations\" or \"parameters_of\"");
    }
    if (!shares && (loads == nullptr || (loads->is_array() && loads->empty()))) {
      add("recipe.missing_key",
          pointer + "/load",
          "missing key",
          "a model that is not trained would keep its random initial values");
      problems_.back().expected = "a list of sources: [{\"from\": \"FOLDER\"}], or parameters_of";
    }
    if (has_entries(pointer + "/frozen")) {
      conflict(pointer + "/frozen",
               "without an optimizer, all parameters are frozen",
               "remove \"frozen\"");
    }
    for (std::size_t i = 0; loads != nullptr && loads->is_array() && i < loads->size(); ++i) {
      const std::string load = join_pointer(pointer + "/load", i);
      if (!(*loads)[i].is_object()) {
        continue;
      }
      check_renames((*loads)[i], load);
      const json parts = (*loads)[i].value("parts", json::array({"parameters"}));
      const auto has = [&parts](const char* part) {
        return std::ranges::find(parts, part) != parts.end();
      };
      if (parts.is_array() && (has("optimizer") || has("data") || !has("parameters"))) {
        conflict(
            load + "/parts", "a model that is not trained has only parameters", "remove \"parts\"");
      }
      if (is_scheduled(load)) {
        conflict(load,
                 "a model that is not trained is loaded once",
                 "remove every_steps, every_windows and every_epochs");
      }
    }
  }

  void check_best_metric(const std::string& pointer) {
    const std::optional<std::string> metric = string_at(pointer + "/metric");
    if (metric && !metric->starts_with("eval/") && !names_next_window(pointer)) {
      add("recipe.bad_value",
          pointer + "/metric",
          "not a metric of data.eval",
          "use a name that starts with \"eval/\", such as \"eval/loss\"");
    }
  }

  // True if keep_best names a metric of next windows, which need no data.eval.
  bool names_next_window(const std::string& pointer) const {
    return is_true("/eval/next_window") &&
           string_at(pointer + "/metric").value_or("").starts_with("next/");
  }

  bool has_entries(const std::string& pointer) const {
    const json* const list = find_at(root_, pointer);
    return list != nullptr && list->is_array() && !list->empty();
  }

  // True if the section has an interval in steps, windows or epochs, or evaluates with windows.
  bool is_scheduled(const std::string& pointer) const {
    return string_at(pointer + "/with_window").has_value() || is_true(pointer + "/next_window") ||
           integer_at(pointer + "/every_steps").value_or(0) > 0 ||
           integer_at(pointer + "/every_windows").value_or(0) > 0 ||
           integer_at(pointer + "/every_epochs").value_or(0) > 0;
  }

  // Requires that each export is made at some time, and has its own folder.
  void check_exports() {
    const json* const exports = find_at(root_, "/checkpoint/exports");
    if (exports == nullptr || !exports->is_array()) {
      return;
    }
    std::set<std::string> formats;
    for (std::size_t i = 0; i < exports->size(); ++i) {
      const std::string pointer = join_pointer("/checkpoint/exports", i);
      if (!is_scheduled(pointer) && !is_true(pointer + "/at_end")) {
        conflict(
            pointer,
            "the entry never makes an export",
            "set one of every_steps, every_windows, every_epochs and at_end, or remove the entry");
      }
      const auto kind = string_at(join_pointer(pointer, "format"));
      if (kind && !formats.insert(*kind).second) {
        conflict(join_pointer(pointer, "format"),
                 "duplicate format \"" + *kind + "\"",
                 "merge the entries: a format has one folder and one schedule");
      }
    }
  }

  // Rejects retention rules without effect.
  void check_kept(std::int64_t every_steps, std::int64_t keep_last) {
    const std::string by_step = "/checkpoint/keep_every_steps";
    const std::int64_t multiple = integer_at(by_step).value_or(0);
    if (multiple > 0 && every_steps <= 0) {
      conflict(by_step,
               "keeps checkpoints by step, but checkpoint.every_steps is not set",
               "set checkpoint.every_steps, and make this key a multiple of it");
    } else if (multiple > 0 && multiple % every_steps != 0) {
      conflict(by_step,
               formatted("keeps one checkpoint every {} steps, but they are saved every {} steps",
                         multiple,
                         every_steps),
               "choose a multiple of checkpoint.every_steps (at " +
                   places_.at("/checkpoint/every_steps").text() + ")");
    }
    const std::string best = "/checkpoint/keep_best";
    const bool has_best = object_at(best) != nullptr;
    if (has_best) {
      check_best_metric(best);
      const json* const eval = find_at(root_, "/data/eval");
      if (eval != nullptr && eval->is_null() && !names_next_window(best)) {
        conflict(best,
                 "ranks checkpoints by an evaluation, but data.eval is null",
                 "set data.eval, or remove the key");
      } else if (eval != nullptr && !is_scheduled("/eval") && !has_entries("/hooks")) {
        conflict(best,
                 "needs evaluations during the run, but none is scheduled",
                 "set one of eval.every_steps, eval.every_windows and eval.every_epochs");
      }
    }
    if (keep_last == 0 && !places_.is_default("/checkpoint/keep_last")) {
      for (const std::string& pointer : {by_step, best}) {
        if (pointer == best ? has_best : multiple > 0) {
          conflict(pointer,
                   "has no effect: checkpoint.keep_last is 0, which keeps all checkpoints",
                   "set checkpoint.keep_last above 0, or remove the key");
        }
      }
    }
  }

  using NameOf = std::string (*)(const std::string& type, std::size_t number);

  static std::string type_name(const std::string& type, std::size_t) { return default_name(type); }

  // Checks one dataset or mix.
  void check_dataset(const std::string& pointer, const json& dataset) {
    if (!dataset.contains("mix")) {
      if (!dataset.contains("type")) {
        missing(join_pointer(pointer, "type"), "dataset", "or a mix of several: {\"mix\": [...]}");
        problems_.back().place = places_.written_at(pointer);
      }
      if (dataset.contains("when_one_ends")) {
        conflict(join_pointer(pointer, "when_one_ends"),
                 "applies to a mix, but there is one dataset",
                 "remove the key, or use \"mix\" instead of \"type\"");
      }
      return;
    }
    for (const char* const key : {"type", "options"}) {
      const std::string at = join_pointer(pointer, key);
      if (dataset.contains(key) && !places_.is_default(at)) {
        conflict(at,
                 std::string("both \"") + key + "\" and \"mix\"",
                 std::string("each entry of \"mix\" has its own; remove \"") + key +
                     "\" or \"mix\" (at " + places_.at(join_pointer(pointer, "mix")).text() + ")");
      }
    }
    const json& mix = dataset["mix"];
    const std::string list = join_pointer(pointer, "mix");
    check_unique_names(list, "source", never_taken, mix_name);
    const auto is_off = [](const json& entry) {
      return entry.is_object() && entry.contains("weight") && entry["weight"].is_number() &&
             entry["weight"].get<double>() == 0;
    };
    if (mix.is_array() && !mix.empty() && std::ranges::all_of(mix, is_off)) {
      add("recipe.bad_value",
          list,
          "all weights are 0",
          "set the weight of at least one source above 0");
    }
  }

  void check_unique_names(const std::string& list,
                          const std::string& kind,
                          bool (*is_taken)(std::string_view name),
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
      if (is_taken(name)) {
        add("recipe.duplicate_name",
            at,
            "a " + kind + " named \"" + name + "\" clashes with a built-in metric",
            "give it another \"name\"");
      } else if (!is_new) {
        add("recipe.duplicate_name",
            at,
            "a second " + kind + " named \"" + name + "\"",
            "the first is " + known->second + " at " + places_.at(known->second).text() +
                "; give each its own \"name\"");
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
        conflict(at,
                 "reloads the data position while the data is being read",
                 "remove \"data\" from parts, or load it once, in a separate entry");
      }
    }
    if (parts->size() == 1) {
      for (const char* const names : {"match", "exclude", "rename"}) {
        const std::string at = join_pointer(pointer, names);
        if (has_entries(at) && *find_at(root_, at) != json::array({"*"})) {
          conflict(at,
                   "has no effect: the data position has no names",
                   "remove the key, or add \"parameters\" or \"tables\" to parts");
        }
      }
    }
  }

  // Each '*' of one side needs a '*' on the other.
  void check_renames(const json& load, const std::string& pointer) {
    const json* const renames = find_at(load, "/rename");
    for (std::size_t i = 0; renames != nullptr && renames->is_array() && i < renames->size(); ++i) {
      const std::string at = join_pointer(pointer + "/rename", i);
      const auto from = string_at(at + "/from");
      const auto to = string_at(at + "/to");
      if (from && to && std::ranges::count(*from, '*') != std::ranges::count(*to, '*')) {
        conflict(at + "/to",
                 "has a different number of '*' than \"" + *from + "\"",
                 "each '*' of \"to\" stands for the text that the '*' of \"from\" at the same "
                 "position matched");
      }
    }
  }

  // Requires exactly one of a short and a long form.
  void one_form(const std::string& brief, const std::string& full, const std::string& relation) {
    const bool has_brief = root_.contains(brief);
    const bool has_full = root_.contains(full);
    if (has_brief && has_full) {
      // Report the later one: it is usually the mistake, often made by a --set.
      const bool is_full_later =
          places_.at("/" + brief).sort_key() < places_.at("/" + full).sort_key();
      const std::string& later = is_full_later ? full : brief;
      const std::string& earlier = is_full_later ? brief : full;
      conflict("/" + later,
               "both \"" + brief + "\" and \"" + full + "\"",
               formatted("\"{}\" {}; keep \"{}\" (at {}) or \"{}\"",
                         brief,
                         relation,
                         earlier,
                         places_.at("/" + earlier).text(),
                         later));
    } else if (!has_brief && !has_full) {
      missing("/" + brief, brief, "the " + brief);
    }
  }

  // Checks names, which become parts of file names and metric names.
  void check_names(const std::string& pointer, const json* named, std::size_t max_size) {
    for (const std::string& name :
         named != nullptr ? keys_of(*named) : std::vector<std::string>()) {
      const bool is_good =
          !name.empty() && name.size() <= max_size && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || c == '-';
          });
      if (!is_good) {
        add("recipe.bad_value", join_pointer(pointer, name), "invalid name", "");
        problems_.back().expected = formatted("letters, digits, '_' and '-', at most {}", max_size);
        problems_.back().found = brief_value(name);
      }
    }
  }

  // True if a misspelled run length is already reported as an unknown key.
  bool explains_missing_horizon() const {
    return std::ranges::any_of(problems_.kept(), [](const Problem& problem) {
      return problem.id == "recipe.unknown_key" && problem.pointer.starts_with("/train/") &&
             std::ranges::any_of(kRunLengths, [&problem](const std::string& name) {
               return problem.hint.find("\"" + name + "\"") != std::string::npos ||
                      problem.note.find("\"train." + name + "\"") != std::string::npos;
             });
    });
  }
};

}  // namespace

void check_contradictions(const json& root, const PlaceMap& places, ProblemList& problems) {
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
  check_step_size(root, places, problems);
}

std::string default_name(const std::string& type) {
  const std::size_t slash = type.rfind('/');
  return as_name(slash == std::string::npos ? type : type.substr(slash + 1));
}

}  // namespace tenon
