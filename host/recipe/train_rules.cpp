// SPDX-License-Identifier: Apache-2.0
//
// Rules of the section `train`: run length, size of a step, activations and updates.
#include "host/recipe/recipe_rules.hpp"
#include "host/text/formatted.hpp"

#include <string_view>

namespace tenon {
namespace {

using OfTrain = When<TrainRecipe>;

const RuleTable<TrainRecipe> kRunLengthRules = {
    {.keys = {"", "steps", "epochs", "windows", "tokens", "minutes"},
     .broken = !OfTrain::set("steps") && !OfTrain::set("epochs") && !OfTrain::set("windows") &&
               !OfTrain::set("tokens") && !OfTrain::set("minutes"),
     .what = "no run length",
     .way_out = "set at least one of steps, epochs, windows, tokens and minutes",
     .id = "recipe.no_horizon",
     .waits = RuleWaits::kForKnownKeys},
    {.keys = {"total_steps", "steps"},
     .broken =
         [](const TrainRecipe& train) {
           return train.steps && train.total_steps && *train.steps != *train.total_steps;
         },
     .what =
         [](const TrainRecipe& train, const RuleKeys&) {
           return formatted(
               "the schedule has {} steps, but the run has {}", *train.total_steps, *train.steps);
         },
     .way_out =
         [](const TrainRecipe&, const RuleKeys& keys) {
           return "a run length in steps is the schedule's length too; remove one of the two "
                  "(steps is at " +
                  keys.place_text("steps") + ")";
         }},
    {.keys = {"epochs", "windows"},
     .broken = [](const TrainRecipe& train) { return train.trains_new_windows() && train.epochs; },
     .what = "no epoch ends if train.windows is \"new\"",
     .way_out = "remove one of them"},
};

// Rules across sections.
const RuleTable<Recipe> kTrainingRules = {
    {.keys = {"train/windows", "checkpoint"},
     .broken =
         [](const Recipe& recipe) {
           return recipe.train.trains_new_windows() && !recipe.checkpoint;
         },
     .what = "\"new\" continues from a checkpoint",
     .way_out = "add a section \"checkpoint\""},
    {.keys = {"train/update_in_backward", "parallel/offload", "parallel/reshard_after_forward"},
     .broken =
         [](const Recipe& recipe) {
           return recipe.train.update_in_backward &&
                  (recipe.parallel.offload || recipe.parallel.reshard_after_forward == true);
         },
     .what = "/parallel shards parameters on a single rank",
     .way_out = "remove one of the keys"},
    {.keys = {"parallel/sequence_parallel", "parallel/tensor"},
     .broken =
         [](const Recipe& recipe) {
           return recipe.parallel.sequence_parallel && recipe.parallel.tensor == 1;
         },
     .what = "no ranks divide blocks",
     .way_out = "set tensor to a degree above 1, or remove the key"},
    {.keys = {"parallel/stage_starts", "parallel/pipeline"},
     .broken =
         [](const Recipe& recipe) {
           return !recipe.parallel.stage_starts.empty() && recipe.parallel.pipeline == 1;
         },
     .what = "no ranks divide the model into stages",
     .way_out = "set pipeline to a degree above 1, or remove the key"},
};

// ---- activations ----

bool is_recompute_word(const std::string& entry) {
  return entry == "none" || entry == "blocks" || entry == "selective";
}

const RuleTable<TrainRecipe> kActivationRules = {
    {.keys = {"recompute"},
     .broken =
         [](const TrainRecipe& train) {
           return train.recompute.size() > 1 &&
                  std::ranges::any_of(train.recompute, is_recompute_word);
         },
     .what =
         [](const TrainRecipe& train, const RuleKeys&) {
           return "\"" + *std::ranges::find_if(train.recompute, is_recompute_word) +
                  "\" stands beside other entries";
         },
     .way_out = "give the word alone, or patterns only"},
    {.keys = {"offload_folder", "offload_activations"},
     .broken = OfTrain::set("offload_folder") && !OfTrain::is("offload_activations",
                                                              &TrainRecipe::offload_activations,
                                                              ActivationOffload::kDisk,
                                                              "disk"),
     .what = "the folder has no use",
     .way_out = "set offload_activations to \"disk\", or remove the key"},
    {.keys = {"offload_activations", "recompute", "tile"},
     .broken =
         [](const TrainRecipe& train) {
           return train.offload_activations != ActivationOffload::kNone && !train.tile &&
                  std::ranges::all_of(train.recompute,
                                      [](const std::string& entry) { return entry == "none"; });
         },
     .what = "only inputs of blocks that run again in backward are moved, and no block does",
     .way_out = "set recompute, such as \"blocks\", or tile"},
};

// ---- updates in the backward, where each gradient is used and freed before the next one exists
// ----

Rule<TrainRecipe> not_in_backward(const char* key,
                                  bool (*is_so)(const TrainRecipe&),
                                  const char* what,
                                  const char* way_out) {
  return {.keys = {"update_in_backward", key},
          .broken = [is_so](const TrainRecipe& t) { return t.update_in_backward && is_so(t); },
          .what = what,
          .way_out = way_out};
}

const RuleTable<TrainRecipe> kUpdateRules = {
    not_in_backward(
        "clip_grad_norm",
        [](const TrainRecipe& train) { return train.clip_grad_norm.has_value(); },
        "/train/clip_grad_norm needs the norm of all gradients before the first update",
        "set clip_grad_value instead, or remove one of the keys"),
    not_in_backward(
        "non_finite/policy",
        [](const TrainRecipe& train) { return train.non_finite.policy == NonFinitePolicy::kSkip; },
        "/train/non_finite/policy is \"skip\", but a step that turns out to be non-finite is "
        "partly applied",
        "set the policy to \"stop\" or \"ignore\""),
    not_in_backward(
        "precision",
        [](const TrainRecipe& train) { return train.precision == "fp16_autocast"; },
        "/train/precision is \"fp16_autocast\", whose loss scale skips updates",
        "use \"bf16_autocast\""),
};

// ---- the size of a step ----

constexpr char kSamples[] = "train/global_batch_size";
constexpr char kTokens[] = "train/global_batch_tokens";
constexpr char kAccumulation[] = "train/gradient_accumulation";
constexpr std::size_t kSection = std::string_view("train/").size();
constexpr char kBatch[] = "data/batch_size";
constexpr char kPacking[] = "data/train/packing";

// "10 = 2 * 4 + 2".
std::string division(std::int64_t size, std::int64_t by) {
  return formatted("{} = {} * {} + {}", size, size / by, by, size % by);
}

const char* size_key(const Recipe& recipe) {
  return recipe.train.global_batch_tokens ? kTokens : kSamples;
}

// The tokens of a microbatch with packing; 0 if they are not known.
std::int64_t tokens_of_microbatch(const Recipe& recipe) {
  std::int64_t tokens = 0;
  const bool is_known =
      recipe.data.train.packing &&
      !__builtin_mul_overflow(recipe.data.batch_size, recipe.data.train.packing->length, &tokens);
  return is_known ? tokens : 0;
}

const RuleTable<Recipe> kStepSizeRules = {
    {.keys = {kAccumulation, kSamples, kTokens},
     .broken =
         [](const Recipe& recipe, const RuleKeys& keys) {
           return (recipe.train.global_batch_size || recipe.train.global_batch_tokens) &&
                  keys.is_set(kAccumulation);
         },
     .what =
         [](const Recipe& recipe, const RuleKeys&) {
           return "conflicts with " + std::string(size_key(recipe)).substr(kSection) +
                  ", which sets it";
         },
     .way_out =
         [](const Recipe& recipe, const RuleKeys& keys) {
           const std::string key = size_key(recipe);
           return "remove one of the two (" + key.substr(kSection) + " is at " +
                  keys.place_text(key) + ")";
         }},
    {.keys = {kSamples, kTokens, kBatch},
     .broken =
         [](const Recipe& recipe) {
           const std::int64_t batch = recipe.data.batch_size;
           return !recipe.train.global_batch_tokens && recipe.train.global_batch_size &&
                  batch > 0 && *recipe.train.global_batch_size % batch != 0;
         },
     .what =
         [](const Recipe& recipe, const RuleKeys&) {
           return formatted("a step of {} samples does not divide into microbatches of {}",
                            *recipe.train.global_batch_size,
                            recipe.data.batch_size);
         },
     .way_out =
         [](const Recipe& recipe, const RuleKeys& keys) {
           return formatted("{}; choose a multiple of data.batch_size (at {})",
                            division(*recipe.train.global_batch_size, recipe.data.batch_size),
                            keys.place_text(kBatch));
         },
     .id = "recipe.indivisible"},
    {.keys = {kSamples, kTokens},
     .broken =
         [](const Recipe& recipe) {
           return recipe.train.global_batch_tokens && recipe.train.global_batch_size;
         },
     .what = "conflicts with global_batch_tokens: both set the size of a step",
     .way_out =
         [](const Recipe&, const RuleKeys& keys) {
           return "remove one of the two (global_batch_tokens is at " + keys.place_text(kTokens) +
                  ")";
         }},
    {.keys = {kTokens, kPacking},
     .broken =
         [](const Recipe& recipe) {
           return recipe.train.global_batch_tokens && !recipe.data.train.packing;
         },
     .what = "needs data.train.packing, which sets the tokens of a row",
     .way_out = "set data.train.packing, or give the step in samples by global_batch_size"},
    {.keys = {kTokens, kBatch, kPacking},
     .broken =
         [](const Recipe& recipe) {
           const std::int64_t microbatch = tokens_of_microbatch(recipe);
           return recipe.train.global_batch_tokens && microbatch > 0 &&
                  *recipe.train.global_batch_tokens % microbatch != 0;
         },
     .what =
         [](const Recipe& recipe, const RuleKeys&) {
           return formatted(
               "a step of {} tokens does not divide into microbatches of {} rows of {} tokens",
               *recipe.train.global_batch_tokens,
               recipe.data.batch_size,
               recipe.data.train.packing->length);
         },
     .way_out =
         [](const Recipe& recipe, const RuleKeys& keys) {
           return formatted(
               "{}; choose a multiple of data.batch_size (at {}) times data.train.packing.length",
               division(*recipe.train.global_batch_tokens, tokens_of_microbatch(recipe)),
               keys.place_text(kBatch));
         },
     .id = "recipe.indivisible"},
};

}  // namespace

const RuleTable<TrainRecipe>& run_length_rules() {
  return kRunLengthRules;
}

const RuleTable<TrainRecipe>& activation_rules() {
  return kActivationRules;
}

const RuleTable<TrainRecipe>& update_rules() {
  return kUpdateRules;
}

const RuleTable<Recipe>& training_rules() {
  return kTrainingRules;
}

const RuleTable<Recipe>& step_size_rules() {
  return kStepSizeRules;
}

}  // namespace tenon
