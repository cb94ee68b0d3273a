// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_difference.hpp"

#include "host/error/error.hpp"
#include "host/json/json_path.hpp"
#include "host/json/json_source.hpp"
#include "host/recipe/old_names.hpp"
#include "host/recipe/recipe_sections.hpp"
#include "host/recipe/variable_marks.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
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

constexpr char kHorizon[] = "sets the run length only";

const std::vector<ResumeRule>& rules() {
  static const std::vector<ResumeRule> all = recipe_resume_rules();
  return all;
}

// Options of datasets that set which data is skipped or waited for from now on.
constexpr const char* kDataPolicies[] = {"/data/train/options/empty_windows",
                                         "/data/train/options/windows/bad_files",
                                         "/data/train/options/windows/follow",
                                         "/data/train/options/windows/incomplete",
                                         "/data/train/options/windows/late",
                                         "/data/train/options/windows/skip_after",
                                         "/data/train/options/windows/skip_before"};

// Returns the most specific rule that applies to the pointer.
const ResumeRule& rule_of(const std::string& pointer) {
  static const ResumeRule unknown = {"", kRefused, "this release does not know the key"};
  const auto tokens = split_pointer(pointer).value_or(std::vector<std::string>());
  const ResumeRule* best = &unknown;
  std::size_t most = 0;
  for (const ResumeRule& rule : rules()) {
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

std::string json_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Moves an index to the left until it is not within a character.
std::size_t at_character(const std::string& text, std::size_t index) {
  while (index > 0 && index < text.size() &&
         (static_cast<unsigned char>(text[index]) & 0xc0U) == 0x80U) {
    --index;
  }
  return index;
}

// The value as JSON for a message: at most 100 bytes, from shortly before the first difference from
// `other`.
std::string brief(const json& value, const json* other) {
  constexpr std::size_t kMost = 100;
  constexpr std::size_t kBefore = 40;
  const std::string text = json_line(value);
  std::size_t same = 0;
  if (other != nullptr) {
    const std::string of_other = json_line(*other);
    same = static_cast<std::size_t>(std::ranges::mismatch(text, of_other).in1 - text.begin());
  }
  const std::size_t first =
      text.size() <= kMost || same <= kBefore ? 0 : at_character(text, same - kBefore);
  const std::size_t last = at_character(text, std::min(text.size(), first + kMost));
  return (first > 0 ? "..." : "") + text.substr(first, last - first) +
         (last < text.size() ? "..." : "");
}

// One path, or a list of paths.
bool are_paths(const json& value) {
  return is_path_or_uri(value) ||
         (value.is_array() && !value.empty() && std::ranges::all_of(value, is_path_or_uri));
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
  if (is_set(recipe, "/train/global_batch_tokens")) {
    return integer_at(recipe, "/train/global_batch_tokens", 1) /
           integer_at(recipe, "/data/train/packing/length", 1);
  }
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
                       .before = counted(ranks_before_, "rank"),
                       .now = counted(ranks_now_, "rank"),
                       .change = kWarns,
                       .why = samples_text()});
    }
    return std::move(changes_);
  }

 private:
  std::string samples_text() const {
    return formatted("a step has {} samples instead of {}", samples_now_, samples_before_);
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

  // Skips equal entries at the start and at the end of both lists. Compares the others one by one
  // if the lists have the same length; otherwise they count as removed and added.
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
    return was == nullptr || is == nullptr || have_equal_values(*was, *is);
  }

  static bool has_structure(const json& before, const json& now) {
    const auto is_structured = [](const json& entry) { return entry.is_structured(); };
    return std::ranges::any_of(before, is_structured) || std::ranges::any_of(now, is_structured);
  }

  void add(const json* before, const json* now, const std::string& pointer) {
    const bool are_both = before != nullptr && now != nullptr;
    if (are_both && have_equal_values(*before, *now)) {
      return;
    }
    RecipeChange change{.pointer = pointer, .before = "", .now = ""};
    const json was = before != nullptr ? json(without_marks(*before)) : json();
    const json is = now != nullptr ? json(without_marks(*now)) : json();
    change.before = before != nullptr ? brief(was, are_both ? &is : nullptr) : "";
    change.now = now != nullptr ? brief(is, are_both ? &was : nullptr) : "";
    if (are_both && was == is) {
      change.now += " with another value";
    }
    classify(before, now, change);
    changes_.push_back(std::move(change));
  }

  void classify(const json* before, const json* now, RecipeChange& change) {
    const std::string& at = change.pointer;
    const ResumeRule& rule = rule_of(at);
    change.change = rule.change;
    change.why = rule.why;
    if (rule.why == resume::kBatch.why) {
      has_told_samples_ = true;
      const bool is_same = samples_before_ == samples_now_;
      change.change = is_same ? kFree : kWarns;
      change.why = is_same ? "a step has as many samples as before" : samples_text();
    } else if (at == "/train/steps" || at == "/train/total_steps") {
      const bool has_schedule = is_set(now_, "/lr_scheduler");
      change.change = has_schedule ? kWarns : kFree;
      change.why = has_schedule ? "it sets the schedule length too: later learning rates differ"
                                : std::string(kHorizon);
    } else if (at == "/train/precision" && before != nullptr && now != nullptr) {
      const bool is_alike = keeps_fp32(*before) && keeps_fp32(*now);
      change.change = is_alike ? kWarns : kRefused;
      change.why = is_alike ? "later arithmetic differs" : "the saved dtype changes";
    } else if (is_at_or_below(at, "/data/eval")) {
      const bool is_paired =
          is_set(before_, "/eval/with_window") || is_set(now_, "/eval/with_window");
      change.change = is_paired ? kRefused : kWarns;
      change.why = is_paired
                       ? "eval.with_window: the position of each set is part of the saved state"
                       : "metrics do not compare with earlier ones";
    } else if (is_at_or_below(at, "/metrics") && is_other_metric(before, now, at)) {
      change.change = kWarns;
      change.why = now != nullptr ? "the metric starts now" : "the metric ends";
    } else if (at == "/eval/keep_best" && (is_none(before) || is_none(now))) {
      change.change = kWarns;
      change.why =
          is_none(before) ? "the best counts from now on" : "the run ends with its last parameters";
    } else if (std::ranges::any_of(kDataPolicies, [&at](const char* policy) {
                 return is_at_or_below(at, policy);
               })) {
      change.change = kWarns;
      change.why = "other data is skipped or waited for from now on";
    } else if (rule.change == kRefused && before != nullptr && now != nullptr &&
               are_paths(*before) && are_paths(*now)) {
      change.change = kWarns;
      change.why = "another path, whose content must be the same";
    } else if (is_at_or_below(at, "/optimizer/groups") && (before == nullptr || now == nullptr) &&
               split_pointer(at)->size() == 3) {
      change.change = kRefused;
      change.why = "parameters would move between groups";
    }
  }

  // True if a metric was added, removed or replaced. The name identifies its saved state.
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
  return rules();
}

std::vector<RecipeChange> recipe_changes(const RecipeOfRanks& before, const RecipeOfRanks& now) {
  json was = parse_json(before.frozen, "the recipe of the checkpoint");
  json is = parse_json(now.frozen, "the recipe");
  replace_old_names(was);
  replace_old_names(is);
  mark_variables(was);
  mark_variables(is);
  return Difference(was, before.num_ranks, is, now.num_ranks).find();
}

bool has_change_at(std::span<const RecipeChange> changes, std::span<const char* const> keys) {
  return std::ranges::any_of(changes, [keys](const RecipeChange& change) {
    return std::ranges::any_of(
        keys, [&change](const char* key) { return is_at_or_below(change.pointer, key); });
  });
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
    throw Error(
        "resume.recipe_changed",
        "the recipe is incompatible with " + checkpoint + ":\n" + changes_text(refused) +
            "restore the old values (see its recipe.json), or start a new run with --resume none "
            "and another --run-dir");
  }
}

}  // namespace tenon
