// SPDX-License-Identifier: Apache-2.0
//
// A recipe as plain values: checked, complete (every default is in it) and no longer JSON, but for
// the options of components, which only the components understand.
// Invariant: a Recipe is made by finish_recipe() alone and is never changed.

#pragma once

#include "host/recipe/place.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

// A component to create, or a reference to one that is created for another place of the recipe.
struct ComponentUse {
  std::string kind = {};       // "dataset"
  std::string type = {};       // as written: "text" or "plugin-id/text"; "" for a reference
  std::string plugin_id = {};  // of the plugin that offers it; "" for a reference
  std::string options = {};    // a JSON object: defaults filled in, paths absolute
  std::string pointer = {};    // where it stands, in the form written: "/data/train", "/loss"
  std::string place = {};      // the same for people: "recipes/a.json:12", "--set #2"

  // Components inside the options, in the order of `options`. `option` is where: "/tokenizer".
  struct Nested;
  std::vector<Nested> nested;

  // The `pointer` of the component that is meant; "" where this is a component itself. It is
  // never a reference to a reference, and following references never comes back.
  std::string ref = {};
};

struct ComponentUse::Nested {
  std::string option;
  ComponentUse use;
};

// From the name that a component uses to MODEL.OUTPUT or a field of the batch.
using InputMap = std::map<std::string, std::string>;

struct PluginNeed {
  std::string id;
  std::string relation;  // ">=", "==", or "" for any version
  std::string version;   // "1.2"
  Place place;
  std::string pointer;  // "/plugins/need/0"
};

struct ModelUse {
  std::string name;
  InputMap inputs;
  std::vector<std::string> frozen;  // patterns of names of parameters that are not trained
  ComponentUse use;
};

struct LossUse {
  std::string name;
  double weight = 1.0;
  InputMap inputs;
  ComponentUse use;
};

struct MetricUse {
  std::string name;
  InputMap inputs;
  ComponentUse use;
};

// What becomes of a mix when one of its sources has been read whole.
enum class WhenSourceEnds { kRepeat, kStop, kContinue };

// A dataset of a mix.
struct MixEntry {
  std::string name;
  double weight = 1.0;
  ComponentUse use;
};

// One dataset, or a mix of several.
struct DatasetUse {
  ComponentUse use = {};  // where `mix` is empty
  std::vector<MixEntry> mix = {};
  WhenSourceEnds when_one_ends = WhenSourceEnds::kRepeat;
};

struct EvalSetUse {
  std::string list;  // "eval" or "test"
  std::string name;  // "" for the unnamed one
  DatasetUse data;
};

// What the names of a set's figures begin with: "eval/", or "eval/NAME/", or "test/...".
std::string eval_prefix(const EvalSetUse& set);

// A pattern of labels, or an id.
using WindowName = std::variant<std::string, std::uint64_t>;

enum class LastBatch { kShort, kDrop };

struct DataRecipe {
  std::int64_t batch_size = 0;
  bool shuffle = true;
  std::int64_t loader_threads = 1;
  std::int64_t prefetch = 4;
  LastBatch last = LastBatch::kShort;
  std::optional<double> timeout_seconds;  // of a call into a dataset; none: for ever
  DatasetUse train;
  std::vector<EvalSetUse> eval;  // by name, or one without
  std::vector<EvalSetUse> test;
  std::vector<WindowName> skip_windows;  // of `train`
};

// A column that is computed: the first step is given `from`, each other one what comes before it.
struct FeatureUse {
  std::string name;
  std::vector<std::string> from;    // columns of the batch, or features that stand before this one
  std::vector<ComponentUse> steps;  // at least one
};

// Parameters whose name matches a pattern. `use.options` are whole: the optimizer's own (where the
// type is the same), then the defaults of the type, under what the group says.
struct OptimizerGroup {
  std::string match;
  ComponentUse use;
};

struct OptimizerRecipe {
  ComponentUse use;
  std::vector<OptimizerGroup> groups;  // the first that matches wins
};

enum class TableDtype { kFp32, kBf16, kFp16 };
enum class RowInitKind { kZeros, kOnes, kConstant, kNormal, kTruncNormal, kUniform };
enum class RowsToEvict { kLeastRecent, kLeastFrequent };

struct RowInitRecipe {
  RowInitKind kind = RowInitKind::kZeros;
  double value = 0;
  double mean = 0;
  double deviation = 0;
  double low = 0;
  double high = 0;
};

struct AdmitRecipe {
  std::int64_t count = 1;
  double probability = 1;
};

struct EvictRecipe {
  std::optional<std::int64_t> unseen_steps;
  std::optional<std::int64_t> min_count;
  std::optional<std::int64_t> max_rows;
  RowsToEvict policy = RowsToEvict::kLeastRecent;
};

// A table, or what the tables have in common that a pattern matches. What is absent is said by a
// pattern, or by the model, or has the default of the schema.
struct TableRecipe {
  std::string name;                   // with '*' or '?': a pattern
  std::vector<std::string> features;  // names or patterns of the model's tables; none: its own
  std::optional<std::int64_t> dim;
  std::optional<TableDtype> dtype;
  std::optional<ComponentUse> optimizer;
  std::optional<RowInitRecipe> init;
  std::optional<AdmitRecipe> admit;
  std::optional<EvictRecipe> evict;
  std::optional<std::int64_t> bytes;
  std::optional<double> missing;
  std::optional<double> clip_row_norm;
  std::optional<double> lr_factor;
};

enum class Normalize { kItems, kMicrobatch };

// What becomes of an update that is not finite.
enum class NonFinitePolicy { kSkip, kStop, kIgnore };

struct NonFiniteRecipe {
  NonFinitePolicy policy = NonFinitePolicy::kSkip;
  std::int64_t max_in_a_row = 10;  // so many skipped updates one after the other end the run
};

enum class Recompute { kNone, kBlocks };

struct TrainRecipe {
  // At least one of the five; the first that is reached ends the run.
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> windows;
  std::optional<std::int64_t> tokens;
  std::optional<double> minutes;
  std::optional<std::int64_t> steps_per_window;
  std::optional<std::int64_t> total_steps;  // of the schedule, where it is given
  std::optional<std::int64_t> global_batch_size;
  std::int64_t gradient_accumulation = 1;  // without global_batch_size; see microbatches_per_step
  Normalize normalize = Normalize::kItems;
  std::optional<std::int64_t> loss_tile;  // positions; without one, all at once
  std::optional<double> clip_grad_norm;
  std::optional<double> clip_grad_value;
  std::string precision = "fp32";  // a name of host/device/precision.hpp
  NonFiniteRecipe non_finite;
  Recompute recompute = Recompute::kNone;
  std::int64_t log_every = 10;  // 0: the first step alone
  bool overfit_batch = false;
  std::optional<std::int64_t> exit_at_step;
  std::optional<std::int64_t> exit_after_steps;
  std::string kill_switch;  // an absolute path; "" for none
};

// When the next window of each evaluation set is evaluated on, beside one of training.
enum class WithWindow { kNever, kBefore, kAfter };

struct KeepBestRecipe {
  std::string metric;
  bool is_max = false;
};

struct EvalRecipe {
  std::int64_t every_steps = 0;  // 0 is never
  std::int64_t every_windows = 0;
  std::int64_t every_epochs = 0;
  bool at_start = false;
  bool at_end = false;  // never true without a dataset
  std::optional<std::int64_t> batches;
  bool next_window = false;
  WithWindow with_window = WithWindow::kNever;
  std::optional<KeepBestRecipe> keep_best;
};

// Whether a save copies the state and lets the run go on, or writes it piece by piece while the run
// waits, for less memory.
enum class CheckpointStaging { kCopy, kStream };

// What becomes of a run whose checkpoint cannot be written.
enum class OnSaveFailure { kContinue, kStop };

// What becomes of a run that went wrong.
enum class OnSpike { kGoOn, kRollBack };

// Which checkpoints are kept for what an evaluation gave.
struct KeepBestCheckpoints {
  std::string metric;
  bool is_max = false;
  std::int64_t count = 1;
};

// Parameters and rows alone as a checkpoint, or a folder as transformers keep models.
enum class ExportFormat { kWeights, kHf };

struct ExportRecipe {
  ExportFormat format = ExportFormat::kWeights;
  std::int64_t every_steps = 0;  // 0 is never
  std::int64_t every_windows = 0;
  std::int64_t every_epochs = 0;
  bool at_end = false;
  std::int64_t keep_last = 0;  // 0: all
};

struct CheckpointRecipe {
  std::int64_t every_steps = 0;  // 0 is never
  std::int64_t every_windows = 0;
  std::int64_t every_epochs = 0;
  std::optional<double> every_minutes;
  bool at_start = false;
  bool at_end = true;
  bool on_signal = true;
  double grace_seconds = 0;
  CheckpointStaging staging = CheckpointStaging::kCopy;
  std::int64_t retries = 0;
  OnSaveFailure on_failure = OnSaveFailure::kContinue;
  std::int64_t keep_last = 0;         // 0: all
  std::int64_t keep_every_steps = 0;  // 0: none for its step
  std::optional<KeepBestCheckpoints> keep_best;
  OnSpike on_spike = OnSpike::kGoOn;
  std::int64_t max_roll_backs = 0;
  std::vector<std::string> exclude;  // patterns of parameters and tables
  std::vector<ExportRecipe> exports;
  std::optional<ComponentUse> storage;  // none: the run folder
};

// A place that a load may read from.
struct LoadSource {
  std::string path;                     // absolute; what `storage` calls it where there is one
  std::optional<ComponentUse> storage;  // none: local files
};

// A name there and the name here; each '*' is any text, which stands in the other's '*' too.
struct LoadRename {
  std::string from;
  std::string to;
};

// How tensors are called in files that are no checkpoint: by the layout "hf" where the model's
// plugin knows it, or as asked.
enum class LoadLayout { kAuto, kOwn, kHf };

// What a run begins with that another has trained.
struct LoadRecipe {
  std::string pointer;           // "/load/0"
  std::vector<LoadSource> from;  // the first that is there and sound
  bool has_parameters = true;
  bool has_tables = true;
  bool has_optimizer = false;
  bool has_data = false;
  std::vector<std::string> match;    // patterns of names here
  std::vector<std::string> exclude;  // the same, of those that are left out
  std::vector<LoadRename> rename;    // the first that fits
  bool is_strict = true;
  LoadLayout layout = LoadLayout::kAuto;
  std::int64_t every_steps = 0;  // 0 is never: at the start alone
  std::int64_t every_windows = 0;
  std::int64_t every_epochs = 0;
};

enum class GradientDtype { kStored, kBf16 };

struct ParallelRecipe {
  std::int64_t replicate = 1;  // -1: what the other leaves
  std::int64_t shard = -1;
  int stage = 3;                              // of ZeRO
  std::optional<bool> reshard_after_forward;  // none: all blocks but the last
  std::vector<std::string> unsharded;         // patterns of names of blocks
  std::int64_t bucket_bytes = 0;
  GradientDtype gradient_dtype = GradientDtype::kStored;  // on their way between ranks
  bool offload = false;
  double start_timeout_seconds = 0;
  double timeout_seconds = 0;
  std::string interface;  // "" for the one that the first rank is reached by
  bool check_collectives = false;
  bool share_memory = true;
  std::int64_t check_replicas_every = 0;  // 0 is never
};

struct Recipe {
  std::string name;
  std::uint64_t seed = 1;
  bool deterministic = true;
  std::string device = "cpu";  // a name that open_device() takes
  int compute_threads = 1;
  std::vector<PluginNeed> needs;
  std::optional<double> plugin_timeout_seconds;  // of a call into any other component
  ModelUse model;
  DataRecipe data;
  std::vector<FeatureUse> features;
  std::vector<LossUse> losses;
  std::vector<MetricUse> metrics;
  std::vector<TableRecipe> tables;  // by name
  OptimizerRecipe optimizer;
  std::optional<ComponentUse> lr_scheduler;
  std::vector<ComponentUse> hooks;
  TrainRecipe train;
  EvalRecipe eval;
  std::optional<CheckpointRecipe> checkpoint;  // none: nothing is saved
  std::vector<LoadRecipe> load;                // in this order
  ParallelRecipe parallel;
  std::vector<ComponentUse> sinks;

  std::string file;    // the recipe file, as it was named
  std::string frozen;  // see frozen_recipe()
};

// The recipe in its long form with every default, as JSON text that ends in a line break. Read
// again, it gives the same recipe and the same text.
inline const std::string& frozen_recipe(const Recipe& recipe) {
  return recipe.frozen;
}

// How many microbatches each rank accumulates for a step.
//
// Errors   recipe.indivisible, with the arithmetic, where global_batch_size is given and is no
//          multiple of batch_size * num_ranks
std::int64_t microbatches_per_step(const Recipe& recipe, std::int64_t num_ranks);

}  // namespace tenon
