// SPDX-License-Identifier: Apache-2.0
//
// A recipe as plain values: checked, complete with all defaults, and no longer JSON. Only the
// options of components stay JSON, because only the components understand them. Each section binds
// its keys beside its members (section.hpp).
// Invariant: only finish_recipe() makes a Recipe, which then never changes.

#pragma once

#include "host/json/place.hpp"
#include "host/recipe/checkpoint_recipe.hpp"
#include "host/recipe/component_use.hpp"
#include "host/recipe/data_recipe.hpp"
#include "host/recipe/kernels_recipe.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/recipe/model_recipe.hpp"
#include "host/recipe/parallel_recipe.hpp"
#include "host/recipe/resume_rule.hpp"
#include "host/recipe/table_recipe.hpp"
#include "host/recipe/train_recipe.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct PluginNeed {
  std::string id;
  std::string relation;  // ">=", "==", or "" for any version
  std::string version;   // "1.2"
  Place place;
  std::string pointer;  // "/plugins/need/0"
};

// What happens if the plugins differ from the file plugins.lock beside the recipe.
enum class LockUse { kIgnore, kWarn, kRequire };

struct Recipe {
  std::string name;
  std::uint64_t seed = 1;
  bool deterministic = true;
  std::string device = "cpu";  // argument of open_device()
  KernelsRecipe kernels;
  int compute_threads = 1;
  std::vector<PluginNeed> needs;
  LockUse lock = LockUse::kWarn;
  std::string trust;                                    // trust file; "" for none
  std::optional<double> plugin_timeout_seconds = 1800;  // of a call into a non-dataset component
  ModelUse model;                                       // the trained model
  std::vector<ModelUse> further_models;                 // by name; they only run forward
  DataRecipe data;
  std::vector<FeatureUse> features;
  std::vector<TableRecipe> tables;  // by name
  std::vector<LossUse> losses;
  std::vector<MetricUse> metrics;
  OptimizerRecipe optimizer;
  std::optional<ComponentUse> lr_scheduler;
  std::vector<ComponentUse> hooks;
  TrainRecipe train;
  EvalRecipe eval;
  std::optional<CheckpointRecipe> checkpoint;  // none if the recipe has null: nothing is saved
  std::vector<LoadRecipe> load;                // in order of execution
  ParallelRecipe parallel;
  std::vector<ComponentUse> sinks;

  std::string file;    // path of the recipe file, as given
  std::string frozen;  // see frozen_recipe()

  // Binds the keys in the order of frozen recipes, the reference and the resume rules.
  template <class Section>
  static void bind(Section& s) {
    bind_run(s);
    bind_components(s);
    bind_loop(s);
  }

 private:
  template <class Section>
  static void bind_run(Section& s) {
    s.template unread<std::string>("$schema").short_form().doc(
        "schema for editors; ignored by runs");
    s.key("name", &Recipe::name)
        .max_length(100)
        .pattern("^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
        .absent()
        .doc("name of the run folder; the recipe file's name if absent")
        .resume(resume::kFree);
    s.key("seed", &Recipe::seed)
        .min(0)
        .doc("seed of every random number of the run")
        .resume(ChangeClass::kRefused, "random numbers and the order of the data depend on it");
    s.key("deterministic", &Recipe::deterministic)
        .doc("use only kernels that return the same bits each time")
        .resume(resume::kBits);
    s.key("device", &Recipe::device)
        .pattern("^(auto|cpu|cuda(:[0-9]{1,3})?)$")
        .doc("device: \"cpu\", \"cuda\", \"cuda:N\", or \"auto\" for a GPU if there is one")
        .resume(resume::kBits);
    s.key("kernels", &Recipe::kernels)
        .doc(
            "kernels of the host's operators: \"auto\" for the fastest, by measurement, \"plain\" "
            "for "
            "libtorch's, or a choice for each operator")
        .resume(resume::kBits);
    s.object("threads", [](Section& t) { bind_threads(t); })
        .doc("threads of this process")
        .resume(resume::kBits);
    s.object("plugins", [](Section& t) { bind_plugins(t); })
        .doc("plugins that the run needs and accepts")
        .resume(resume::kFree);
    s.template unread<std::map<std::string, std::string>>("environment")
        .short_form()
        .doc("fingerprints of variables, written by Tenon; ignored when a run reads the recipe");
  }

  template <class Section>
  static void bind_threads(Section& s) {
    s.key("compute", &Recipe::compute_threads)
        .or_null()
        .preset("null")
        .min(1)
        .max(4096)
        .doc(
            "threads of operators; null: OMP_NUM_THREADS, or else one per processor that the run "
            "may "
            "use. Changes the last bits of results");
  }

  template <class Section>
  static void bind_plugins(Section& s) {
    s.key("need", &Recipe::needs)
        .pattern("^[A-Za-z0-9_][A-Za-z0-9_.-]*( *(>=|==) *[0-9]+(\\.[0-9]+){0,2})?$")
        .doc("plugin ids, each with an optional version: \"com.example.ctr >= 1.2\"");
    s.key("timeout_seconds", &Recipe::plugin_timeout_seconds)
        .above(0)
        .doc(
            "longest call into a plugin before the run fails, in seconds; null: no limit. Datasets "
            "have data.timeout_seconds");
    s.choice(
         "lock",
         &Recipe::lock,
         {{nullptr, LockUse::kIgnore}, {"warn", LockUse::kWarn}, {"require", LockUse::kRequire}})
        .doc("if plugins differ from plugins.lock beside the recipe: warn, or end; null: no check");
    s.key("trust", &Recipe::trust)
        .or_null()
        .non_empty()
        .path()
        .doc("file of public keys; load only plugins that one of them signed; null: all");
  }

  template <class Section>
  static void bind_components(Section& s) {
    s.key("model", &Recipe::model).short_form();
    s.named("models", &Recipe::further_models)
        .absent()
        .names({"name", "^[A-Za-z0-9_-]{1,100}$", "letters, digits, '_' and '-', at most 100"})
        .doc(
            "models by name, of which one has an optimizer; \"model\" is short for an entry named "
            "\"main\"")
        .resume(resume::kShapes);
    s.key("data", &Recipe::data).required().doc("datasets and how to read them");
    s.key("features", &Recipe::features)
        .doc("columns to compute from columns of the batch, before anything else reads it")
        .resume(ChangeClass::kRefused, "the model would see other columns");
    s.named("tables", &Recipe::tables)
        .names({"table name",
                "^[A-Za-z0-9_.*?-]{1,100}$",
                "letters, digits, '_', '-' and '.', at most 100, or a pattern with '*' and '?'"})
        .doc(
            "embedding tables by name; a name with '*' or '?' is a pattern that sets defaults for "
            "the tables it matches")
        .resume(resume::kShapes);
    s.single("loss", &Recipe::losses).short_form();
    s.key("losses", &Recipe::losses)
        .min_items(1)
        .absent()
        .doc("losses, whose weighted sum is minimized; \"loss\" is short for one")
        .resume(ChangeClass::kRefused, "the training objective changes")
        .resume_below("/*/options", resume::kObjective);
    s.key("metrics", &Recipe::metrics)
        .doc("metrics of evaluations beside the loss, and of training if the metric asks for it")
        .resume(ChangeClass::kRefused,
                "its counts are part of the saved state; warns for a new name");
    s.key("optimizer", &Recipe::optimizer)
        .required()
        .doc("optimizer of dense parameters")
        .resume(ChangeClass::kRefused, "the saved optimizer state does not fit")
        .resume_below("/options", resume::kUpdates);
    s.key("lr_scheduler", &Recipe::lr_scheduler)
        .component("lr_scheduler")
        .doc("factor on each group's learning rate by step; null: constant learning rates")
        .resume(ChangeClass::kWarns, "later learning rates differ");
    s.key("hooks", &Recipe::hooks)
        .component("hook")
        .doc("hooks, called in this order unless they state another one")
        .resume(ChangeClass::kWarns,
                "the state of a removed hook is lost; a new hook with state may refuse");
  }

  template <class Section>
  static void bind_loop(Section& s) {
    s.key("train", &Recipe::train).required().doc("run length and training step");
    s.key("eval", &Recipe::eval).doc("when and how much to evaluate").resume(resume::kFree);
    s.key("checkpoint", &Recipe::checkpoint)
        .preset(R"({"staging": "stream", "keep_last": 1})")
        .doc("when to save the run; absent: once, at its end or at a stop; null: never")
        .resume(resume::kFree);
    s.key("load", &Recipe::load)
        .doc("what to initialize from other runs, in this order; a resumed run loads nothing again")
        .resume(ChangeClass::kFree, "applies to new runs, and to later reloads");
    s.key("parallel", &Recipe::parallel)
        .doc("how to shard the model and its data over ranks")
        .resume(ChangeClass::kFree, "sets the sharding; results differ in the last bits");
    s.key("sinks", &Recipe::sinks)
        .component("metric_sink")
        .preset(R"([{"type": "jsonl"}])")
        .doc("where to write metrics")
        .resume(resume::kFree);
  }
};

// Calls `f` for each component that the recipe names outside options, in the order of its keys.
// Components inside options are in `nested` of the outer component.
void for_each_component(const Recipe& recipe, const ComponentVisit& f);
void fill_each_component(Recipe& recipe, const ComponentFill& f);

// Returns the recipe in its long form with all defaults, as JSON text that ends in a line break.
// Reading the text gives the same recipe and the same text.
inline const std::string& frozen_recipe(const Recipe& recipe) {
  return recipe.frozen;
}

// Returns the number of microbatches that each rank accumulates in a step.
//
// Errors   recipe.indivisible, with the arithmetic, if global_batch_size is given and is not a
//          multiple of batch_size * num_ranks, or global_batch_tokens is not a multiple of this
//          number times the tokens of a row
std::int64_t microbatches_per_step(const Recipe& recipe, std::int64_t num_ranks);

}  // namespace tenon
