// SPDX-License-Identifier: Apache-2.0
//
// The sections "train" and "eval" of a recipe.
#pragma once

#include "host/recipe/resume_rule.hpp"
#include "host/recipe/schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

enum class Normalize { kItems, kMicrobatch };

// What to do with an update in which a loss or a gradient is non-finite.
enum class NonFinitePolicy { kSkip, kStop, kIgnore };

// Where to activations that backward needs are moved after the forward of their unit.
enum class ActivationOffload { kNone, kHost, kDisk };

struct NonFiniteRecipe {
  NonFinitePolicy policy = NonFinitePolicy::kSkip;
  std::int64_t max_consecutive = 10;

  template <class Section>
  static void bind(Section& s) {
    s.choice("policy",
             &NonFiniteRecipe::policy,
             {{"skip", NonFinitePolicy::kSkip},
              {"stop", NonFinitePolicy::kStop},
              {"ignore", NonFinitePolicy::kIgnore}})
        .doc("skip the update, stop the run at the first one, or apply the update");
    s.key("max_consecutive", &NonFiniteRecipe::max_consecutive)
        .formerly("max_in_a_row")
        .min(1)
        .max(1000000000)
        .doc("consecutive skipped updates after which the run fails");
  }
};

struct TrainRecipe {
  // At least one of these five is set. The run ends at the first one that it reaches.
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> epochs;
  std::optional<std::variant<std::string, std::int64_t>> windows;  // "new", or a number
  std::optional<std::int64_t> tokens;
  std::optional<double> minutes;
  std::optional<std::int64_t> steps_per_window;
  std::optional<std::int64_t> total_steps;  // length of the learning rate schedule, if given
  std::optional<std::int64_t> global_batch_size;
  std::optional<std::int64_t> global_batch_tokens;  // with data.train.packing
  // Without the two keys above; see microbatches_per_step.
  std::int64_t gradient_accumulation = 1;
  Normalize normalize = Normalize::kItems;
  std::optional<std::int64_t> loss_chunk;
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_grad_value;
  std::string precision = "fp32";  // a name of host/device/precision.hpp
  NonFiniteRecipe non_finite;
  // One word, "none", "blocks" or "selective", or name patterns of units and blocks.
  std::vector<std::string> recompute = {"none"};
  std::optional<std::int64_t> tile;
  ActivationOffload offload_activations = ActivationOffload::kNone;
  std::string offload_folder;  // an absolute path; "" for the run folder
  bool update_in_backward = false;
  std::int64_t log_every = 10;                                  // 0: the first step only
  std::optional<std::variant<std::string, double>> peak_flops;  // "measure", or per second
  bool loss_by_source = false;
  bool overfit_batch = false;
  std::optional<std::int64_t> exit_at_step;
  std::optional<std::int64_t> exit_after_steps;
  std::string kill_switch;  // an absolute path; "" for none

  // True if the run trains on each window once, and ends when there is no new window.
  bool trains_new_windows() const {
    return windows.has_value() && std::holds_alternative<std::string>(*windows);
  }
  // The run length in windows, if it has one.
  std::optional<std::int64_t> num_windows() const {
    return windows.has_value() && !trains_new_windows()
               ? std::optional(std::get<std::int64_t>(*windows))
               : std::nullopt;
  }

  template <class Section>
  static void bind(Section& s) {
    bind_length(s);
    bind_batch(s);
    bind_update(s);
    bind_loop(s);
  }

 private:
  template <class Section>
  static void bind_length(Section& s) {
    s.key("steps", &TrainRecipe::steps)
        .count()
        .doc("run length in steps")
        .resume(ChangeClass::kFree, "sets the run length only; warns with an lr_scheduler");
    s.key("epochs", &TrainRecipe::epochs)
        .count()
        .doc("run length in epochs")
        .resume(resume::kLength);
    s.key("windows", &TrainRecipe::windows)
        .pattern("^new$")
        .count()
        .doc(
            "run length in windows; \"new\": trains on each window once, over any number of starts")
        .resume(resume::kLength);
    s.key("tokens", &TrainRecipe::tokens)
        .count()
        .doc("run length in tokens, without padding; ends after the step that reaches it")
        .resume(resume::kLength);
    s.key("minutes", &TrainRecipe::minutes)
        .above(0)
        .doc("run length in minutes, evaluations included; ends after the step that reaches it")
        .resume(resume::kLength);
  }

  template <class Section>
  static void bind_batch(Section& s) {
    s.key("steps_per_window", &TrainRecipe::steps_per_window)
        .count()
        .doc("longest window, in steps; null: no limit")
        .resume(ChangeClass::kWarns, "later windows end elsewhere");
    s.key("total_steps", &TrainRecipe::total_steps)
        .count()
        .doc("length of the learning rate schedule in steps, if the run length is not in steps")
        .resume(ChangeClass::kFree, "sets the schedule length only; warns with an lr_scheduler");
    s.key("global_batch_size", &TrainRecipe::global_batch_size)
        .count()
        .doc("samples in a step over all ranks and microbatches; sets gradient_accumulation")
        .resume(resume::kBatch);
    s.key("global_batch_tokens", &TrainRecipe::global_batch_tokens)
        .count()
        .doc(
            "tokens in a step over all ranks and microbatches, padding included; needs "
            "data.train.packing; sets gradient_accumulation")
        .resume(resume::kBatch);
    s.key("gradient_accumulation", &TrainRecipe::gradient_accumulation)
        .or_null()
        .min(1)
        .max(1000000000)
        .doc("microbatches in a step; null with global_batch_size or global_batch_tokens")
        .resume(resume::kBatch);
    s.choice("normalize",
             &TrainRecipe::normalize,
             {{"items", Normalize::kItems}, {"microbatch", Normalize::kMicrobatch}})
        .doc(
            "divide the gradient by the items of the whole step, or average the means of "
            "microbatches")
        .resume(resume::kUpdates);
    s.key("loss_chunk", &TrainRecipe::loss_chunk)
        .formerly("loss_tile")
        .min(1)
        .doc("sequence positions per chunk of the model's head and the losses; null: all at once")
        .resume(resume::kBits);
  }

  template <class Section>
  static void bind_update(Section& s) {
    s.key("clip_grad_norm", &TrainRecipe::clip_grad_norm)
        .above(0)
        .doc("largest norm of all gradients together; null: no limit")
        .resume(resume::kUpdates);
    s.key("clip_grad_value", &TrainRecipe::clip_grad_value)
        .above(0)
        .doc("largest absolute value of a gradient element; null: no limit")
        .resume(resume::kUpdates);
    s.key("precision", &TrainRecipe::precision)
        .one_of({"fp32", "fp64", "bf16_autocast", "fp16_autocast", "bf16_params", "bf16"})
        .doc("precision of parameters and arithmetic")
        .resume(ChangeClass::kRefused,
                "the saved dtype changes; warns among fp32, bf16_autocast and bf16_params");
    s.key("non_finite", &TrainRecipe::non_finite)
        .doc("updates in which a loss or a gradient is NaN or infinite")
        .resume(resume::kFree);
    s.key("recompute", &TrainRecipe::recompute)
        .or_one()
        .non_empty()
        .preset("\"none\"")
        .doc(
            "none: keep activations; blocks: recompute each unit's forward in backward; "
            "selective: as blocks, without attention; or name patterns")
        .resume(resume::kFree);
    s.key("tile", &TrainRecipe::tile)
        .count()
        .doc("sequence positions per tile of tokenwise blocks, recomputed in backward; null: all")
        .resume(resume::kBits);
    s.choice("offload_activations",
             &TrainRecipe::offload_activations,
             {{nullptr, ActivationOffload::kNone},
              {"host", ActivationOffload::kHost},
              {"disk", ActivationOffload::kDisk}})
        .doc("move inputs of recomputed units to host memory or a file; null: keep them")
        .resume(resume::kFree);
    s.key("offload_folder", &TrainRecipe::offload_folder)
        .or_null()
        .non_empty()
        .path()
        .doc("folder of offload_activations \"disk\"; null: the run folder")
        .resume(resume::kFree);
    s.key("update_in_backward", &TrainRecipe::update_in_backward)
        .doc("update parameters in the backward, as soon as gradients are final, and free these")
        .resume(resume::kFree);
  }

  template <class Section>
  static void bind_loop(Section& s) {
    s.key("log_every", &TrainRecipe::log_every)
        .every()
        .doc("steps between records of metrics; 0 or null: the first step only")
        .resume(resume::kFree);
    s.key("peak_flops", &TrainRecipe::peak_flops)
        .pattern("^measure$")
        .above(0)
        .doc(
            "peak of a rank's device, in operations per second, or \"measure\"; records mfu/... "
            "and "
            "hfu/...; null: neither")
        .resume(resume::kFree);
    s.key("loss_by_source", &TrainRecipe::loss_by_source)
        .doc(
            "record the losses of each source of a mixture, in training and evaluations; computes "
            "each loss twice")
        .resume(resume::kFree);
    s.key("overfit_batch", &TrainRecipe::overfit_batch)
        .doc(
            "train on the first step's batch again and again; windows, epochs and evaluation are "
            "as usual")
        .resume(resume::kDataOrder);
    s.key("exit_at_step", &TrainRecipe::exit_at_step)
        .count()
        .doc("step after which to stop early, with status 75")
        .resume(resume::kLength);
    s.key("exit_after_steps", &TrainRecipe::exit_after_steps)
        .count()
        .doc("steps of this process after which to stop early, with status 75")
        .resume(resume::kLength);
    s.key("kill_switch", &TrainRecipe::kill_switch)
        .or_null()
        .non_empty()
        .path()
        .doc("stop early, with status 75, when this file appears; relative to the recipe's folder")
        .resume(resume::kLength);
  }
};

// Whether each evaluation set advances by a window with each window of training.
enum class WithWindow { kNever, kBefore, kAfter };

struct KeepBestRecipe {
  std::string metric;
  bool is_max = false;

  template <class Section>
  static void bind(Section& s) {
    s.key("metric", &KeepBestRecipe::metric)
        .non_empty()
        .required()
        .doc("metric that ranks evaluations, such as \"eval/loss\"");
    s.choice("mode", &KeepBestRecipe::is_max, {{"min", false}, {"max", true}})
        .required()
        .doc("whether the smallest or the largest value is best");
  }
};

struct EvalRecipe {
  Schedule every = {};
  bool at_start = false;
  bool at_end = true;  // false without a dataset
  std::optional<std::int64_t> batches;
  bool next_window = false;
  WithWindow with_window = WithWindow::kNever;
  std::optional<KeepBestRecipe> keep_best;

  template <class Section>
  static void bind(Section& s) {
    s.schedule(&EvalRecipe::every,
               {.steps = "steps between evaluations; 0 or null: never",
                .windows = "windows between evaluations; 0 or null: never",
                .epochs = "epochs between evaluations; 0 or null: never"});
    s.key("at_start", &EvalRecipe::at_start).doc("evaluate before the first step");
    s.key("at_end", &EvalRecipe::at_end).doc("evaluate after the last step, if there is a dataset");
    s.key("batches", &EvalRecipe::batches).count().doc("batches in an evaluation; null: all");
    s.key("next_window", &EvalRecipe::next_window)
        .doc("evaluate each window of data.train before training on it; adds metrics next/...");
    s.choice("with_window",
             &EvalRecipe::with_window,
             {{nullptr, WithWindow::kNever},
              {"before", WithWindow::kBefore},
              {"after", WithWindow::kAfter}})
        .doc(
            "evaluate the next window of each data.eval set with windows, before or after each "
            "window of data.train; null: never")
        .resume(ChangeClass::kRefused, "the position of each set is part of the saved state");
    s.key("keep_best", &EvalRecipe::keep_best)
        .doc(
            "keep the parameters of the best evaluation in memory, and end the run with them; "
            "null: end with the last ones")
        .resume(ChangeClass::kRefused,
                "the best so far is part of the saved state; warns if the key is added or removed");
  }
};

}  // namespace tenon
