// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/run_rules.hpp"

#include "host/error/error.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The error of the rules, or "".
std::string refusal_of(const Recipe& recipe, const RunFacts& facts) {
  try {
    check_run_rules(recipe, facts);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("facts that are not known yet break no rule", "[recipe]") {
  Recipe recipe;
  recipe.eval.next_window = true;
  recipe.eval.with_window = WithWindow::kBefore;
  recipe.data.skip_windows = {"a"};
  recipe.train.windows = "new";
  recipe.train.recompute = {"selective"};
  recipe.train.offload_activations = ActivationOffload::kHost;
  recipe.train.update_in_backward = true;
  CHECK(refusal_of(recipe, {}).empty());
}

TEST_CASE("keys of windows need a dataset with windows", "[recipe]") {
  const RunFacts facts{.train_data = "dataset text", .train_has_windows = false};
  const auto refused = [&facts](void (*change)(Recipe&)) {
    Recipe recipe;
    change(recipe);
    CHECK(refusal_of(recipe, {}).empty());
    return refusal_of(recipe, facts);
  };
  const std::string why = ": dataset text has no windows; choose a dataset that does, or remove";
  CHECK(refusal_of(Recipe(), facts).empty());
  CHECK_THAT(refused([](Recipe& recipe) { recipe.eval.next_window = true; }),
             contains_text("[recipe.contradiction]") && contains_text("/eval/next_window" + why));
  CHECK_THAT(refused([](Recipe& recipe) { recipe.data.skip_windows = {"a"}; }),
             contains_text("/data/skip_windows" + why));
  CHECK_THAT(refused([](Recipe& recipe) { recipe.train.windows = "new"; }),
             contains_text("/train/windows" + why));
  CHECK(refused([](Recipe& recipe) { recipe.train.windows = 3; }).empty());
  CHECK_THAT(refused([](Recipe& recipe) { recipe.eval.with_window = WithWindow::kAfter; }),
             contains_text("/eval/with_window" + why));
  Recipe recipe;
  recipe.eval.with_window = WithWindow::kAfter;
  CHECK_THAT(refusal_of(recipe, {.eval_has_windows = false}),
             contains_text("/eval/with_window: no dataset of data.eval has windows"));
}

TEST_CASE("an evaluation alone needs a dataset", "[recipe]") {
  Recipe recipe;
  recipe.file = "a.json";
  CHECK_THAT(refusal_of(recipe, {.is_eval_only = true}),
             contains_text("[recipe.no_eval] a.json: --eval-only needs a dataset"));
  recipe.data.eval.emplace_back();
  CHECK(refusal_of(recipe, {.is_eval_only = true}).empty());
}

TEST_CASE("activations are kept and moved as the device allows", "[recipe]") {
  Recipe recipe;
  CHECK(refusal_of(recipe, {.is_cpu = true, .can_keep_attention = false}).empty());
  recipe.train.recompute = {"selective"};
  CHECK_THAT(refusal_of(recipe, {.can_keep_attention = false}),
             contains_text("/train/recompute: \"selective\" keeps results"));
  recipe.train.recompute = {"blocks"};
  recipe.train.offload_activations = ActivationOffload::kDisk;
  CHECK(refusal_of(recipe, {.is_cpu = true, .can_keep_attention = false}).empty());
  recipe.train.offload_activations = ActivationOffload::kHost;
  CHECK_THAT(refusal_of(recipe, {.is_cpu = true}),
             contains_text("/train/offload_activations: \"host\" moves activations from a GPU"));
}

TEST_CASE("exports for Hugging Face have no adapters", "[recipe]") {
  Recipe recipe;
  recipe.checkpoint.emplace().exports.push_back({.format = ExportFormat::kWeights});
  CHECK(refusal_of(recipe, {.has_parametrizations = true}).empty());
  recipe.checkpoint->exports.push_back({.format = ExportFormat::kHf});
  CHECK(refusal_of(recipe, {}).empty());
  CHECK_THAT(refusal_of(recipe, {.has_parametrizations = true}),
             contains_text("/checkpoint/exports: a Hugging Face folder does not hold"));
}

TEST_CASE("updates in the backward need whole gradients of one microbatch", "[recipe]") {
  Recipe recipe;
  const RunFacts all[] = {{.microbatches_per_step = 2},
                          {.num_ranks = 2},
                          {.counts_ahead = false},
                          {.hook_writes_gradients = true},
                          {.hook_sets_late_lr = true}};
  const char* const why[] = {"a step accumulates the gradients of 2 microbatches",
                             "the run has 2 ranks, and only a single rank has whole gradients",
                             "the loss is counted after the forward",
                             "a hook changes gradients",
                             "a hook sets the learning rate before the optimizer's step"};
  for (const RunFacts& facts : all) {
    CHECK(refusal_of(recipe, facts).empty());
  }
  recipe.train.update_in_backward = true;
  for (size_t i = 0; i < std::size(all); ++i) {
    CHECK_THAT(refusal_of(recipe, all[i]),
               contains_text(std::string("/train/update_in_backward: ") + why[i]));
  }
}

TEST_CASE("a schedule that needs the length of the run gets it in steps", "[recipe]") {
  Recipe recipe;
  recipe.train.epochs = 3;
  CHECK_THAT(refusal_of(recipe, {.schedule_needs_total = true}),
             contains_text("[recipe.no_total] /lr_scheduler: the schedule needs the length"));
  recipe.train.total_steps = 30;
  CHECK(refusal_of(recipe, {.schedule_needs_total = true}).empty());
  recipe.train.total_steps.reset();
  recipe.train.steps = 30;
  CHECK(refusal_of(recipe, {.schedule_needs_total = true}).empty());
}

}  // namespace tenon
