// SPDX-License-Identifier: Apache-2.0
//
// Rules of the sections `eval` and `checkpoint`: what is evaluated and saved, and when.
#include "host/json/json_path.hpp"
#include "host/recipe/recipe_rules.hpp"
#include "host/text/formatted.hpp"

#include <set>

namespace tenon {
namespace {

constexpr char kNoEval[] = "requests an evaluation, but data.eval is null";
constexpr char kNoneScheduled[] = "needs evaluations during the run, but none is scheduled";
constexpr char kSchedule[] =
    "set one of eval.every_steps, eval.every_windows and eval.every_epochs";

// Returns the keys of a section that repeat an event, after other keys of a rule.
std::vector<std::string> and_schedule(std::vector<std::string> keys, const std::string& section) {
  for (const char* const key : {"/every_steps", "/every_windows", "/every_epochs"}) {
    keys.push_back(section + key);
  }
  return keys;
}

bool has_no_eval(const Recipe& recipe, const RuleKeys& keys) {
  return recipe.data.eval.empty() && keys.has("data/eval") && !keys.is_unbound("data/eval");
}

bool is_scheduled(const EvalRecipe& eval) {
  return !eval.every.is_never() || eval.next_window || eval.with_window != WithWindow::kNever;
}

// True if a hook may ask for evaluations, checkpoints or roll-backs.
bool has_hooks(const Recipe& recipe) {
  return !recipe.hooks.empty();
}

// True for a metric of next windows, which need no data.eval.
bool is_of_next_window(const Recipe& recipe, const std::string& metric) {
  return recipe.eval.next_window && metric.starts_with("next/");
}

// Requires a metric of data.eval, or of next windows.
Rule<Recipe> ranks_by_evaluation(const std::string& key,
                                 std::function<const std::string*(const Recipe&)> metric_of) {
  return {.keys = {key},
          .broken =
              [key, metric_of](const Recipe& recipe, const RuleKeys& keys) {
                const std::string* const metric = metric_of(recipe);
                return metric != nullptr && keys.has(key) && !metric->starts_with("eval/") &&
                       !is_of_next_window(recipe, *metric);
              },
          .what = "not a metric of data.eval",
          .way_out = "use a name that starts with \"eval/\", such as \"eval/loss\"",
          .id = "recipe.bad_value"};
}

// A key of the section `eval` that has no effect without data.eval.
template <class IsAsked>
Rule<Recipe> needs_eval(const char* key, IsAsked is_asked) {
  const std::string at = std::string("eval/") + key;
  return {.keys = {at, "data/eval"},
          .broken =
              [at, is_asked](const Recipe& recipe, const RuleKeys& keys) {
                return has_no_eval(recipe, keys) && keys.is_given(at) && is_asked(recipe);
              },
          .what = kNoEval,
          .way_out = "set data.eval, or remove the key"};
}

const std::string* metric_of_eval(const Recipe& recipe) {
  return recipe.eval.keep_best ? &recipe.eval.keep_best->metric : nullptr;
}

const RuleTable<Recipe> kEvalRules = {
    ranks_by_evaluation("eval/keep_best/metric", metric_of_eval),
    {.keys =
         and_schedule({"eval/keep_best", "hooks", "eval/with_window", "eval/next_window"}, "eval"),
     .broken =
         [](const Recipe& recipe) {
           return recipe.eval.keep_best && !is_scheduled(recipe.eval) && !has_hooks(recipe);
         },
     .what = kNoneScheduled,
     .way_out = kSchedule},
    needs_eval("every_steps", [](const Recipe& recipe) { return recipe.eval.every.steps > 0; }),
    needs_eval("every_windows", [](const Recipe& recipe) { return recipe.eval.every.windows > 0; }),
    needs_eval("every_epochs", [](const Recipe& recipe) { return recipe.eval.every.epochs > 0; }),
    needs_eval("at_start", [](const Recipe& recipe) { return recipe.eval.at_start; }),
    needs_eval("at_end", [](const Recipe& recipe) { return recipe.eval.at_end; }),
    needs_eval("with_window",
               [](const Recipe& recipe) { return recipe.eval.with_window != WithWindow::kNever; }),
    needs_eval("keep_best",
               [](const Recipe& recipe) {
                 return recipe.eval.keep_best &&
                        !is_of_next_window(recipe, recipe.eval.keep_best->metric);
               }),
};

const RuleTable<ExportRecipe> kExportRules = {
    {.keys = {"", "every_steps", "every_windows", "every_epochs", "at_end"},
     .broken = [](const ExportRecipe& one) { return one.every.is_never() && !one.at_end; },
     .what = "the entry never makes an export",
     .way_out =
         "set one of every_steps, every_windows, every_epochs and at_end, or remove the entry"},
};

// ---- checkpoints: `recipe.checkpoint` is set ----

bool is_regular(const CheckpointRecipe& checkpoint) {
  return !checkpoint.every.is_never() || checkpoint.every_minutes.has_value();
}

bool rolls_back(const Recipe& recipe) {
  return recipe.checkpoint->on_spike == OnSpike::kRollBack;
}

const std::string* metric_of_checkpoint(const Recipe& recipe) {
  return recipe.checkpoint->keep_best ? &recipe.checkpoint->keep_best->metric : nullptr;
}

// A retention rule that has no effect because all checkpoints are kept.
Rule<Recipe> keeps_some(const char* key, bool (*is_set)(const CheckpointRecipe&)) {
  return {.keys = {key, "checkpoint/keep_last"},
          .broken =
              [is_set](const Recipe& recipe, const RuleKeys& keys) {
                return recipe.checkpoint->keep_last == 0 && keys.is_given("checkpoint/keep_last") &&
                       is_set(*recipe.checkpoint);
              },
          .what = "has no effect: checkpoint.keep_last is 0, which keeps all checkpoints",
          .way_out = "set checkpoint.keep_last above 0, or remove the key"};
}

// Each format has one folder and one schedule.
std::vector<Violation> repeated_formats(const Recipe& recipe, const RuleKeys& keys) {
  std::set<ExportFormat> formats;
  std::vector<Violation> found;
  for (std::size_t i = 0; i < recipe.checkpoint->exports.size(); ++i) {
    const ExportFormat format = recipe.checkpoint->exports[i].format;
    const std::string key = join_pointer("/checkpoint/exports", i) + "/format";
    if (!keys.is_unbound(key) && !formats.insert(format).second) {
      found.push_back({.key = key,
                       .what = "duplicate format " + keys.brief(key),
                       .way_out = "merge the entries: a format has one folder and one schedule"});
    }
  }
  return found;
}

const RuleTable<Recipe> kRetentionRules = {
    {.keys = {"checkpoint/keep_every_steps", "checkpoint/every_steps"},
     .broken =
         [](const Recipe& recipe) {
           return recipe.checkpoint->keep_every_steps > 0 && recipe.checkpoint->every.steps == 0;
         },
     .what = "keeps checkpoints by step, but checkpoint.every_steps is not set",
     .way_out = "set checkpoint.every_steps, and make this key a multiple of it"},
    {.keys = {"checkpoint/keep_every_steps", "checkpoint/every_steps"},
     .broken =
         [](const Recipe& recipe) {
           const CheckpointRecipe& checkpoint = *recipe.checkpoint;
           return checkpoint.keep_every_steps > 0 && checkpoint.every.steps > 0 &&
                  checkpoint.keep_every_steps % checkpoint.every.steps != 0;
         },
     .what =
         [](const Recipe& recipe, const RuleKeys&) {
           return formatted(
               "keeps one checkpoint every {} steps, but they are saved every {} steps",
               recipe.checkpoint->keep_every_steps,
               recipe.checkpoint->every.steps);
         },
     .way_out =
         [](const Recipe&, const RuleKeys& keys) {
           return "choose a multiple of checkpoint.every_steps (at " +
                  keys.place_text("checkpoint/every_steps") + ")";
         }},
    ranks_by_evaluation("checkpoint/keep_best/metric", metric_of_checkpoint),
    {.keys = {"checkpoint/keep_best", "checkpoint/keep_best/metric", "data/eval"},
     .broken =
         [](const Recipe& recipe, const RuleKeys& keys) {
           const std::string* const metric = metric_of_checkpoint(recipe);
           return metric != nullptr && has_no_eval(recipe, keys) &&
                  !is_of_next_window(recipe, *metric);
         },
     .what = "ranks checkpoints by an evaluation, but data.eval is null",
     .way_out = "set data.eval, or remove the key"},
    {.keys = and_schedule(
         {"checkpoint/keep_best", "data/eval", "hooks", "eval/with_window", "eval/next_window"},
         "eval"),
     .broken =
         [](const Recipe& recipe, const RuleKeys& keys) {
           const std::string* const metric = metric_of_checkpoint(recipe);
           const bool is_rejected = metric != nullptr && has_no_eval(recipe, keys) &&
                                    !is_of_next_window(recipe, *metric);
           return metric != nullptr && keys.has("data/eval") && !is_rejected &&
                  !is_scheduled(recipe.eval) && !has_hooks(recipe);
         },
     .what = kNoneScheduled,
     .way_out = kSchedule},
    keeps_some("checkpoint/keep_every_steps",
               [](const CheckpointRecipe& checkpoint) { return checkpoint.keep_every_steps > 0; }),
    keeps_some("checkpoint/keep_best",
               [](const CheckpointRecipe& checkpoint) { return checkpoint.keep_best.has_value(); }),
    {.keys = {"checkpoint/on_spike", "train/non_finite/policy", "hooks"},
     .broken =
         [](const Recipe& recipe) {
           return rolls_back(recipe) && !has_hooks(recipe) &&
                  recipe.train.non_finite.policy == NonFinitePolicy::kIgnore;
         },
     .what = "rolls back on non-finite updates, but train.non_finite.policy is \"ignore\"",
     .way_out =
         "set the policy to \"skip\" or \"stop\", or add a hook that reports loss spikes, such as "
         "spike_guard"},
    {.keys = and_schedule(
         {"checkpoint/on_spike", "checkpoint/every_minutes", "checkpoint/at_start", "hooks"},
         "checkpoint"),
     .broken =
         [](const Recipe& recipe) {
           return rolls_back(recipe) && !is_regular(*recipe.checkpoint) &&
                  !recipe.checkpoint->at_start && !has_hooks(recipe);
         },
     .what = "rolls back to a checkpoint, but none is saved before the end",
     .way_out = "set one of every_steps, every_windows, every_epochs, every_minutes and at_start"},
};

const RuleTable<Recipe> kCheckpointRules = {
    {.keys = {"checkpoint/exports"}, .find = repeated_formats},
    {.keys = and_schedule({"checkpoint",
                           "checkpoint/every_minutes",
                           "checkpoint/at_start",
                           "checkpoint/at_end",
                           "checkpoint/on_signal",
                           "checkpoint/exports",
                           "hooks"},
                          "checkpoint"),
     .broken =
         [](const Recipe& recipe) {
           const CheckpointRecipe& checkpoint = *recipe.checkpoint;
           return !is_regular(checkpoint) && checkpoint.exports.empty() && !checkpoint.at_start &&
                  !checkpoint.at_end && !checkpoint.on_signal && !has_hooks(recipe);
         },
     .what = "the section never saves a checkpoint",
     .way_out =
         "set one of every_steps, every_windows, every_epochs, every_minutes, at_start, at_end, "
         "on_signal and exports, or set the section to null"},
};

}  // namespace

const RuleTable<Recipe>& eval_rules() {
  return kEvalRules;
}

const RuleTable<ExportRecipe>& export_rules() {
  return kExportRules;
}

const RuleTable<Recipe>& retention_rules() {
  return kRetentionRules;
}

const RuleTable<Recipe>& checkpoint_rules() {
  return kCheckpointRules;
}

}  // namespace tenon
