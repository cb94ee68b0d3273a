// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_difference.hpp"

#include "host/error/error.hpp"
#include "host/recipe/json_path.hpp"
#include "host/recipe/json_source.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr auto kFree = ChangeClass::kFree;
constexpr auto kWarns = ChangeClass::kWarns;
constexpr auto kRefused = ChangeClass::kRefused;

constexpr std::string_view kFollows = "nothing that is saved depends on it";
constexpr std::string_view kBits = "results differ in their last bits";
constexpr std::string_view kOrder = "the order of the data is another one";
constexpr std::string_view kShapes = "what was saved does not fit, or computes something else";
constexpr std::string_view kObjective = "another function is trained on from here on";
constexpr std::string_view kUpdates = "updates are others from here on";
constexpr std::string_view kRows = "rows are treated otherwise from here on";
constexpr std::string_view kBatch = "free where a step has as many samples as before";
constexpr std::string_view kGathered = "what was gathered for it is part of what is saved";
constexpr std::string_view kHorizon = "how long the run is";

constexpr auto kRules = std::to_array<ResumeRule>({
    {"/name", kFree, kFollows},
    {"/seed", kRefused, "random numbers and the order of the data are drawn from it"},
    {"/deterministic", kWarns, kBits},
    {"/device", kWarns, kBits},
    {"/threads", kWarns, kBits},
    {"/plugins", kFree, kFollows},
    {"/models", kRefused, kShapes},
    {"/data/batch_size", kWarns, kBatch},
    {"/data/shuffle", kRefused, kOrder},
    {"/data/loader_threads", kFree, kFollows},
    {"/data/prefetch", kFree, kFollows},
    {"/data/timeout_seconds", kFree, kFollows},
    {"/data/last", kWarns, "the last step of an epoch is another one"},
    {"/data/train", kRefused, kOrder},
    {"/data/eval",
     kWarns,
     "figures do not compare with those before; refused beside eval.with_window"},
    {"/data/test", kFree, "they are read when the run is done"},
    {"/data/skip_windows", kWarns, "other windows are trained on from here on"},
    {"/features", kRefused, "the model would see other columns"},
    {"/tables", kRefused, kShapes},
    {"/tables/*/optimizer/options", kWarns, kUpdates},
    {"/tables/*/init", kWarns, "new rows begin otherwise from here on"},
    {"/tables/*/admit", kWarns, kRows},
    {"/tables/*/evict", kWarns, kRows},
    {"/tables/*/bytes", kFree, kFollows},
    {"/tables/*/missing", kWarns, kRows},
    {"/tables/*/clip_row_norm", kWarns, kUpdates},
    {"/tables/*/lr_factor", kWarns, kUpdates},
    {"/losses", kRefused, kObjective},
    {"/losses/*/weight", kWarns, kObjective},
    {"/losses/*/options", kWarns, kObjective},
    {"/metrics",
     kRefused,
     "what was gathered for it is part of what is saved; warns for a new name"},
    {"/optimizer", kRefused, "what the optimizer keeps for each parameter does not fit"},
    {"/optimizer/options", kWarns, kUpdates},
    {"/optimizer/groups/*", kWarns, kUpdates},
    {"/optimizer/groups/*/match", kRefused, "parameters would move between groups"},
    {"/lr_scheduler", kWarns, "rates are others from here on"},
    {"/hooks",
     kWarns,
     "what a hook has kept goes with it; one that keeps something must have been there"},
    {"/train/steps", kFree, "how long the run is; warns with an lr_scheduler"},
    {"/train/epochs", kFree, kHorizon},
    {"/train/windows", kFree, kHorizon},
    {"/train/tokens", kFree, kHorizon},
    {"/train/minutes", kFree, kHorizon},
    {"/train/steps_per_window", kWarns, "windows end elsewhere from here on"},
    {"/train/total_steps", kFree, "how long the schedule is; warns with an lr_scheduler"},
    {"/train/global_batch_size", kWarns, kBatch},
    {"/train/gradient_accumulation", kWarns, kBatch},
    {"/train/normalize", kWarns, kUpdates},
    {"/train/loss_tile", kWarns, kBits},
    {"/train/clip_grad_norm", kWarns, kUpdates},
    {"/train/clip_grad_value", kWarns, kUpdates},
    {"/train/precision",
     kRefused,
     "another dtype is saved; warns among fp32, bf16_autocast and bf16_params"},
    {"/train/non_finite", kFree, kFollows},
    {"/train/recompute", kFree, kFollows},
    {"/train/log_every", kFree, kFollows},
    {"/train/overfit_batch", kRefused, kOrder},
    {"/train/exit_at_step", kFree, kHorizon},
    {"/train/exit_after_steps", kFree, kHorizon},
    {"/train/kill_switch", kFree, kHorizon},
    {"/eval", kFree, kFollows},
    {"/eval/with_window", kRefused, kGathered},
    {"/eval/keep_best",
     kRefused,
     "the best so far is part of what is saved; warns where it comes or goes"},
    {"/checkpoint", kFree, kFollows},
    {"/load", kFree, "a run that goes on loads nothing anew; where it is repeated, from here on"},
    {"/parallel", kFree, "how the run is shared out; results differ in their last bits"},
    {"/parallel/gradient_dtype", kWarns, kUpdates},
    {"/sinks", kFree, kFollows},
});

constexpr ResumeRule kUnknown = {"", kRefused, "this release does not know the key"};

// Of those that hold, the one that names most.
const ResumeRule& rule_of(const std::string& pointer) {
  const auto tokens = split_pointer(pointer).value_or(std::vector<std::string>());
  const ResumeRule* best = &kUnknown;
  std::size_t most = 0;
  for (const ResumeRule& rule : kRules) {
    const auto wanted = split_pointer(rule.key).value_or(std::vector<std::string>());
    const bool holds = wanted.size() <= tokens.size() &&
                       std::equal(wanted.begin(),
                                  wanted.end(),
                                  tokens.begin(),
                                  [](const std::string& want, const std::string& token) {
                                    return want == "*" || want == token;
                                  });
    if (holds && wanted.size() > most) {
      best = &rule;
      most = wanted.size();
    }
  }
  return *best;
}

// At most so many bytes of a value stand in a message.
std::string brief(const json& value) {
  constexpr std::size_t kMost = 100;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMost) {
    std::size_t end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
      --end;  // not within a character
    }
    text.resize(end);
    text += "...";
  }
  return text;
}

bool is_place(const json& value) {
  if (!value.is_string()) {
    return false;
  }
  const auto& text = value.get_ref<const std::string&>();
  return text.starts_with('/') || text.find("://") != std::string::npos;
}

// One place, or a list of them.
bool are_places(const json& value) {
  return is_place(value) ||
         (value.is_array() && !value.empty() && std::ranges::all_of(value, is_place));
}

std::int64_t integer_at(const json& recipe, const char* pointer, std::int64_t otherwise) {
  const json* const value = find_at(recipe, pointer);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
}

bool is_set(const json& recipe, const char* pointer) {
  const json* const value = find_at(recipe, pointer);
  return value != nullptr && !value->is_null();
}

std::int64_t samples_of_step(const json& recipe, std::int64_t num_ranks) {
  const std::int64_t of_ranks = integer_at(recipe, "/data/batch_size", 1) *
                                integer_at(recipe, "/train/gradient_accumulation", 1) * num_ranks;
  return integer_at(recipe, "/train/global_batch_size", of_ranks);
}

class Difference {
 public:
  Difference(const json& before, std::int64_t ranks_before, const json& now, std::int64_t ranks_now)
      : before_(before),
        now_(now),
        ranks_before_(ranks_before),
        ranks_now_(ranks_now),
        samples_before_(samples_of_step(before, ranks_before)),
        samples_now_(samples_of_step(now, ranks_now)) {}

  std::vector<RecipeChange> find() {
    compare(before_, now_, "");
    if (samples_before_ != samples_now_ && !has_told_samples_) {
      changes_.insert(changes_.begin(),
                      {.pointer = "",
                       .before = ranks_text(ranks_before_),
                       .now = ranks_text(ranks_now_),
                       .change = kWarns,
                       .why = samples_text()});
    }
    return std::move(changes_);
  }

 private:
  static std::string ranks_text(std::int64_t ranks) {
    return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  }

  std::string samples_text() const {
    return "a step has " + std::to_string(samples_now_) + " samples, and had " +
           std::to_string(samples_before_);
  }

  void compare(const json& before, const json& now, const std::string& pointer) {
    if (before == now) {
      return;
    }
    if (before.is_object() && now.is_object() && is_one_type(before, now)) {
      std::set<std::string> keys;
      for (const json* const side : {&before, &now}) {
        for (const auto& [key, value] : side->items()) {
          keys.insert(key);
        }
      }
      for (const std::string& key : keys) {
        compare_at(find_in(before, key), find_in(now, key), join_pointer(pointer, key));
      }
    } else if (before.is_array() && now.is_array() && has_structure(before, now)) {
      compare_lists(before, now, pointer);
    } else {
      add(&before, &now, pointer);
    }
  }

  void compare_at(const json* before, const json* now, const std::string& pointer) {
    if (before != nullptr && now != nullptr) {
      compare(*before, *now, pointer);
    } else {
      add(before, now, pointer);
    }
  }

  // What both begin and end with stays; of what is between them, entries of one place are compared
  // where there are as many, and else were removed and added.
  void compare_lists(const json& before, const json& now, const std::string& pointer) {
    std::size_t first = 0;
    const std::size_t shorter = std::min(before.size(), now.size());
    while (first < shorter && before[first] == now[first]) {
      ++first;
    }
    std::size_t behind = 0;
    while (behind < shorter - first &&
           before[before.size() - 1 - behind] == now[now.size() - 1 - behind]) {
      ++behind;
    }
    const bool is_as_long = before.size() == now.size();
    for (std::size_t i = first; i < before.size() - behind; ++i) {
      compare_at(&before[i], is_as_long ? &now[i] : nullptr, join_pointer(pointer, i));
    }
    for (std::size_t i = first; !is_as_long && i < now.size() - behind; ++i) {
      add(nullptr, &now[i], join_pointer(pointer, i));
    }
  }

  static const json* find_in(const json& object, const std::string& key) {
    const auto found = object.find(key);
    return found != object.end() ? &*found : nullptr;
  }

  static bool is_one_type(const json& before, const json& now) {
    const json* const was = find_in(before, "type");
    const json* const is = find_in(now, "type");
    return was == nullptr || is == nullptr || *was == *is;
  }

  static bool has_structure(const json& before, const json& now) {
    const auto is_structured = [](const json& entry) { return entry.is_structured(); };
    return std::ranges::any_of(before, is_structured) || std::ranges::any_of(now, is_structured);
  }

  void add(const json* before, const json* now, const std::string& pointer) {
    RecipeChange change{.pointer = pointer,
                        .before = before != nullptr ? brief(*before) : "",
                        .now = now != nullptr ? brief(*now) : ""};
    judge(before, now, change);
    changes_.push_back(std::move(change));
  }

  void judge(const json* before, const json* now, RecipeChange& change) {
    const std::string& at = change.pointer;
    const ResumeRule& rule = rule_of(at);
    change.change = rule.change;
    change.why = rule.why;
    if (rule.why == kBatch) {
      has_told_samples_ = true;
      const bool is_same = samples_before_ == samples_now_;
      change.change = is_same ? kFree : kWarns;
      change.why = is_same ? "a step has as many samples as before" : samples_text();
    } else if (at == "/train/steps" || at == "/train/total_steps") {
      const bool has_schedule = is_set(now_, "/lr_scheduler");
      change.change = has_schedule ? kWarns : kFree;
      change.why = has_schedule ? "the schedule is as long as that: rates are others from here on"
                                : std::string(kHorizon);
    } else if (at == "/train/precision" && before != nullptr && now != nullptr) {
      const bool is_alike = keeps_fp32(*before) && keeps_fp32(*now);
      change.change = is_alike ? kWarns : kRefused;
      change.why = is_alike ? "arithmetic is another one from here on" : "another dtype is saved";
    } else if (is_at_or_below(at, "/data/eval")) {
      const bool is_paired =
          is_set(before_, "/eval/with_window") || is_set(now_, "/eval/with_window");
      change.change = is_paired ? kRefused : kWarns;
      change.why = is_paired ? "eval.with_window: where each set is at is part of what is saved"
                             : "figures do not compare with those before";
    } else if (is_at_or_below(at, "/metrics") && is_other_metric(before, now, at)) {
      change.change = kWarns;
      change.why = now != nullptr ? "it gathers from here on" : "its figures end here";
    } else if (at == "/eval/keep_best" && (is_none(before) || is_none(now))) {
      change.change = kWarns;
      change.why = is_none(before) ? "the best is looked for from here on"
                                   : "the run ends with its last parameters";
    } else if (rule.change == kRefused && before != nullptr && now != nullptr &&
               are_places(*before) && are_places(*now)) {
      change.change = kWarns;
      change.why = "another place: what is there must be the same";
    } else if (is_at_or_below(at, "/optimizer/groups") && (before == nullptr || now == nullptr) &&
               split_pointer(at)->size() == 3) {
      change.change = kRefused;
      change.why = "parameters would move between groups";
    }
  }

  // A whole entry that is new or gone, or that has another one's place: what is saved goes by name.
  static bool is_other_metric(const json* before, const json* now, const std::string& pointer) {
    if (split_pointer(pointer)->size() != 2) {
      return false;
    }
    return before == nullptr || now == nullptr ||
           before->value("name", "") != now->value("name", "");
  }

  static bool is_none(const json* value) { return value == nullptr || value->is_null(); }

  static bool keeps_fp32(const json& precision) {
    return precision == "fp32" || precision == "bf16_autocast" || precision == "bf16_params";
  }

  const json& before_;
  const json& now_;
  const std::int64_t ranks_before_;
  const std::int64_t ranks_now_;
  const std::int64_t samples_before_;
  const std::int64_t samples_now_;
  bool has_told_samples_ = false;
  std::vector<RecipeChange> changes_;
};

}  // namespace

const char* change_class_name(ChangeClass change) {
  switch (change) {
    case ChangeClass::kFree:
      return "free";
    case ChangeClass::kWarns:
      return "warns";
    case ChangeClass::kRefused:
      break;
  }
  return "refused";
}

std::span<const ResumeRule> resume_rules() {
  return kRules;
}

std::vector<RecipeChange> recipe_changes(const RecipeOfRanks& before, const RecipeOfRanks& now) {
  const json was = parse_json(before.frozen, "the recipe of the checkpoint");
  const json is = parse_json(now.frozen, "the recipe");
  return Difference(was, before.num_ranks, is, now.num_ranks).find();
}

std::string changes_text(std::span<const RecipeChange> changes) {
  constexpr std::string_view kNothing = "(nothing)";
  std::string text;
  for (const ChangeClass change : {kRefused, kWarns, kFree}) {
    for (const RecipeChange& one : changes) {
      if (one.change != change) {
        continue;
      }
      std::string line = change_class_name(change);
      line.resize(9, ' ');
      line += one.pointer.empty() ? "" : one.pointer + ": ";
      line += one.before.empty() ? kNothing : one.before;
      line += " -> ";
      line += one.now.empty() ? kNothing : one.now;
      text += line + "; " + one.why + "\n";
    }
  }
  return text;
}

void refuse_changes(std::span<const RecipeChange> changes, const std::string& checkpoint) {
  std::vector<RecipeChange> refused;
  std::ranges::copy_if(changes, std::back_inserter(refused), [](const RecipeChange& change) {
    return change.change == ChangeClass::kRefused;
  });
  if (!refused.empty()) {
    throw Error("resume.recipe_changed",
                "the recipe is not one that can go on from " + checkpoint + ":\n" +
                    changes_text(refused) +
                    "put the old values back (they stand in its recipe.json), or begin another run "
                    "with --resume none and another --run-dir");
  }
}

}  // namespace tenon
