// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/run_rules.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Why = std::function<std::string(const Recipe&, const RunFacts&)>;

struct RunRule {
  const char* key;  // "" if the message does not start with a key
  std::function<bool(const Recipe&, const RunFacts&)> is_broken;
  Why why;
  const char* id = "recipe.contradiction";
};

Why because(const char* text) {
  return [text](const Recipe&, const RunFacts&) { return std::string(text); };
}

// A key that needs windows of data.train.
RunRule needs_windows(const char* key, bool (*is_set)(const Recipe&)) {
  return {key,
          [is_set](const Recipe& recipe, const RunFacts& facts) {
            return is_set(recipe) && !facts.train_has_windows;
          },
          [](const Recipe&, const RunFacts& facts) {
            return facts.train_data +
                   " has no windows; choose a dataset that does, or remove the key";
          }};
}

// What an update in the backward contradicts.
RunRule run_not_in_backward(bool (*is_so)(const RunFacts&), Why why) {
  return {"/train/update_in_backward",
          [is_so](const Recipe& recipe, const RunFacts& facts) {
            return recipe.train.update_in_backward && is_so(facts);
          },
          std::move(why)};
}

bool exports_hf(const Recipe& recipe) {
  return recipe.checkpoint &&
         std::ranges::find(recipe.checkpoint->exports, ExportFormat::kHf, &ExportRecipe::format) !=
             recipe.checkpoint->exports.end();
}

std::vector<RunRule> data_run_rules() {
  return {
      {"",
       [](const Recipe& recipe, const RunFacts& facts) {
         return facts.is_eval_only && recipe.data.eval.empty();
       },
       [](const Recipe& recipe, const RunFacts&) {
         return recipe.file +
                ": --eval-only needs a dataset to evaluate on; name one in /data/eval";
       },
       "recipe.no_eval"},
      needs_windows("/eval/next_window", [](const Recipe& r) { return r.eval.next_window; }),
      needs_windows("/data/skip_windows",
                    [](const Recipe& r) { return !r.data.skip_windows.empty(); }),
      needs_windows("/train/windows", [](const Recipe& r) { return r.train.trains_new_windows(); }),
      needs_windows("/eval/with_window",
                    [](const Recipe& r) { return r.eval.with_window != WithWindow::kNever; }),
      {"/eval/with_window",
       [](const Recipe& recipe, const RunFacts& facts) {
         return recipe.eval.with_window != WithWindow::kNever && !facts.eval_has_windows;
       },
       because("no dataset of data.eval has windows; eval.every_windows evaluates on all of a "
               "dataset every N windows of training")},
  };
}

const std::vector<RunRule> kDataRunRules = data_run_rules();

const std::vector<RunRule> kModelRunRules = {
    {"/checkpoint/exports",
     [](const Recipe& recipe, const RunFacts& facts) {
       return facts.has_parametrizations && exports_hf(recipe);
     },
     because("a Hugging Face folder does not hold the adapters of /model/parametrizations; "
             "export them after the run, by --export peft or --export hf --merge")},
    {"/train/recompute",
     [](const Recipe& recipe, const RunFacts& facts) {
       return !facts.can_keep_attention &&
              recipe.train.recompute == std::vector<std::string>{"selective"};
     },
     because("\"selective\" keeps results of the host's attention kernel, which this run does not "
             "use (it computes in fp32 on a CPU, and `kernels` must not exclude it); set "
             "\"blocks\"")},
    {"/train/offload_activations",
     [](const Recipe& recipe, const RunFacts& facts) {
       return facts.is_cpu && recipe.train.offload_activations == ActivationOffload::kHost;
     },
     because("\"host\" moves activations from a GPU to the host's memory, and this run computes "
             "in that memory; set \"disk\" or null")},
};

const std::vector<RunRule> kUpdateRunRules = {
    run_not_in_backward([](const RunFacts& facts) { return facts.microbatches_per_step > 1; },
                        [](const Recipe&, const RunFacts& facts) {
                          return formatted(
                              "a step accumulates the gradients of {} microbatches, which must be "
                              "kept; use one microbatch a step, or remove the key",
                              facts.microbatches_per_step);
                        }),
    run_not_in_backward([](const RunFacts& facts) { return facts.num_ranks > 1; },
                        [](const Recipe&, const RunFacts& facts) {
                          return formatted(
                              "the run has {} ranks, and only a single rank has whole gradients in "
                              "the backward; shard gradients by /parallel/stage 2 or 3 instead",
                              facts.num_ranks);
                        }),
    run_not_in_backward(
        [](const RunFacts& facts) { return !facts.counts_ahead; },
        because("the loss is counted after the forward, so that gradients are scaled "
                "after the backward; use a loss that is counted from the batch")),
    run_not_in_backward([](const RunFacts& facts) { return facts.hook_writes_gradients; },
                        because("a hook changes gradients, which do not exist after the backward")),
    run_not_in_backward([](const RunFacts& facts) { return facts.hook_sets_late_lr; },
                        because("a hook sets the learning rate before the optimizer's step, which "
                                "runs in the backward")),
    {"/lr_scheduler",
     [](const Recipe& recipe, const RunFacts& facts) {
       return facts.schedule_needs_total && !recipe.train.total_steps && !recipe.train.steps;
     },
     because("the schedule needs the length of the run in steps, and the recipe gives it in "
             "another unit; set /train/total_steps"),
     "recipe.no_total"},
};

}  // namespace

void check_run_rules(const Recipe& recipe, const RunFacts& facts) {
  for (const std::vector<RunRule>* const rules :
       {&kDataRunRules, &kModelRunRules, &kUpdateRunRules}) {
    for (const RunRule& rule : *rules) {
      if (rule.is_broken(recipe, facts)) {
        const std::string key = rule.key;
        throw Error(rule.id, (key.empty() ? "" : key + ": ") + rule.why(recipe, facts));
      }
    }
  }
}

}  // namespace tenon
