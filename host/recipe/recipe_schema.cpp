// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/recipe_schema.hpp"

#include "host/recipe/json_path.hpp"
#include "host/recipe/json_source.hpp"
#include "host/recipe/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon {
namespace {

using nlohmann::json;

// References ("$ref") are local and replaced before use.
//   x-tenon-slot     "model": here stands a component of that kind, for --print-schema
//   x-tenon-printed  keywords for --print-schema alone: rules over several keys, which the host
//                    checks in contradiction.cpp and puts into better words than a schema can
constexpr char kSchemaText[] = R"json({
"$schema": "http://json-schema.org/draft-07/schema#",
"title": "Tenon recipe",
"definitions": {
  "type": {"type": "string", "minLength": 1,
    "description": "the type a plugin registers, or PLUGIN-ID/TYPE where several plugins offer it"},
  "options": {"type": "object", "default": {}, "description": "options of the component's own schema"},
  "inputs": {"type": "object", "default": {}, "additionalProperties": {"type": "string", "minLength": 1},
    "description": "which MODEL.OUTPUT or batch field each input reads, where its own name does not fit"},
  "name": {"type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
    "description": "a name made of letters, digits, '_', '.' and '-'; the type where it is absent"},
  "component": {"type": "object", "additionalProperties": false, "required": ["type"],
    "properties": {"type": {"$ref": "#/definitions/type"}, "options": {"$ref": "#/definitions/options"}}},
  "model": {"type": "object", "additionalProperties": false, "required": ["type"],
    "description": "the model", "x-tenon-slot": "model",
    "properties": {
      "type": {"$ref": "#/definitions/type"},
      "options": {"$ref": "#/definitions/options"},
      "inputs": {"$ref": "#/definitions/inputs"},
      "load": {"x-tenon-unavailable": {"what": "loading by model", "unless": [[], null],
        "instead": "the recipe's section \"load\" says what a run begins with"}},
      "frozen": {"type": "array", "items": {"type": "string", "minLength": 1}, "default": [],
        "description": "patterns of names of parameters that are not trained; '*' is any text, '?' any character"},
      "optimizer": {"x-tenon-unavailable": {"what": "models without an optimizer", "unless": [true, null]}}}},
  "dataset": {"type": "object", "additionalProperties": false,
    "description": "a dataset, or a mix of several", "x-tenon-slot": "dataset",
    "x-tenon-printed": {"if": {"required": ["mix"]},
      "then": {"not": {"anyOf": [{"required": ["type"]}, {"required": ["options"]}]}},
      "else": {"required": ["type"], "properties": {"when_one_ends": false}}},
    "properties": {
      "type": {"$ref": "#/definitions/type"},
      "options": {"$ref": "#/definitions/options"},
      "mix": {"type": "array", "minItems": 1,
        "description": "several datasets in place of one, each read in proportion to its weight",
        "x-tenon-printed": {"contains": {"properties": {"weight": {"exclusiveMinimum": 0}}}},
        "items": {"type": "object", "additionalProperties": false, "required": ["type", "weight"],
          "x-tenon-slot": "dataset",
          "properties": {
            "name": {"type": "string", "maxLength": 40, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
              "description": "names the source's figures; TYPE-NUMBER, as in text-1, where it is absent"},
            "type": {"$ref": "#/definitions/type"},
            "options": {"$ref": "#/definitions/options"},
            "weight": {"type": "number", "minimum": 0,
              "description": "its share of the samples, beside the other weights; a source of weight 0 is not read"}}}},
      "when_one_ends": {"enum": ["repeat", "stop", "continue"],
        "description": "beside mix: a source that has been read whole is read again (repeat, where it is absent), ends the epoch, or is left out for the rest of it"}}},
  "datasets": {"type": ["object", "null"], "default": null,
    "x-tenon-printed": {
      "if": {"type": "object", "anyOf": [
        {"maxProperties": 0}, {"required": ["options"]}, {"required": ["mix"]},
        {"not": {"additionalProperties": {"type": "object"}}}]},
      "then": {"$ref": "#/definitions/dataset"},
      "else": {"propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,40}$"},
        "additionalProperties": {"$ref": "#/definitions/dataset"}}}},
  "loss": {"type": "object", "additionalProperties": false, "required": ["type"],
    "description": "a loss", "x-tenon-slot": "loss",
    "properties": {
      "name": {"$ref": "#/definitions/name"},
      "type": {"$ref": "#/definitions/type"},
      "options": {"$ref": "#/definitions/options"},
      "weight": {"type": "number", "default": 1.0, "description": "its factor in the sum of all losses"},
      "inputs": {"$ref": "#/definitions/inputs"}}},
  "metric": {"type": "object", "additionalProperties": false, "required": ["type"],
    "description": "a metric", "x-tenon-slot": "metric",
    "properties": {
      "name": {"$ref": "#/definitions/name"},
      "type": {"$ref": "#/definitions/type"},
      "options": {"$ref": "#/definitions/options"},
      "inputs": {"$ref": "#/definitions/inputs"}}},
  "table": {"type": "object", "additionalProperties": false,
    "description": "a table, or what tables with such names have in common",
    "properties": {
      "features": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1},
        "description": "names or patterns of the model's tables that are put into this one; its own name where it is absent"},
      "dim": {"type": "integer", "minimum": 1, "maximum": 65536,
        "description": "elements of a row: that of the model, which is compared"},
      "dtype": {"enum": ["fp32", "bf16", "fp16"], "description": "of values; fp32 where it is absent. What the optimizer keeps is fp32"},
      "optimizer": {"$ref": "#/definitions/component", "x-tenon-slot": "sparse_optimizer",
        "description": "updates the rows that a step has touched"},
      "init": {"type": "object", "additionalProperties": false, "required": ["type"],
        "description": "the values of a new row, in place of what the model says",
        "properties": {
          "type": {"enum": ["zeros", "ones", "constant", "normal", "trunc_normal", "uniform"], "description": "how each element is drawn, by the seed, the table, the id and the element alone"},
          "value": {"type": "number", "default": 0, "description": "of constant"},
          "mean": {"type": "number", "default": 0, "description": "of normal and trunc_normal"},
          "deviation": {"type": "number", "minimum": 0, "default": 0.01, "description": "the standard deviation of normal, and of trunc_normal, which is cut at two of them"},
          "low": {"type": "number", "default": -0.01, "description": "of uniform"},
          "high": {"type": "number", "default": 0.01, "description": "of uniform; not reached"}}},
      "admit": {"type": "object", "additionalProperties": false,
        "description": "which ids get a row; the others read as ids that are not there",
        "properties": {
          "count": {"type": "integer", "minimum": 1, "maximum": 1000000000, "default": 1, "description": "when it has been seen so often in training"},
          "probability": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 1, "description": "each time it is seen"}}},
      "evict": {"type": "object", "additionalProperties": false, "minProperties": 1,
        "description": "which rows go",
        "properties": {
          "unseen_steps": {"$ref": "#/definitions/count", "description": "those that no step has updated for so long"},
          "min_count": {"$ref": "#/definitions/count", "description": "of those, only the ones that were seen less often than this"},
          "max_rows": {"$ref": "#/definitions/count", "description": "those beyond so many rows of a rank, by policy"},
          "policy": {"enum": ["least_recent", "least_frequent"], "default": "least_recent", "description": "which go first beyond max_rows"}}},
      "bytes": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+(\\.[0-9]+)? ?([KMGT]i?B)?$",
        "description": "the most memory of the table on a rank, as a number or as in \"8GiB\"; more ends the run"},
      "missing": {"type": "number", "description": "each element of what an id without a row reads as; 0 where it is absent"},
      "clip_row_norm": {"type": "number", "exclusiveMinimum": 0, "description": "the largest norm of the gradient of a row"},
      "lr_factor": {"type": "number", "minimum": 0, "description": "a factor on the optimizer's rate"}}},
  "load_source": {"type": ["string", "object"], "minLength": 1, "x-tenon-path": true,
    "additionalProperties": false, "required": ["path", "storage"],
    "properties": {
      "path": {"type": "string", "minLength": 1, "description": "as the storage names it: RUN, RUN/checkpoints or RUN/checkpoints/NAME"},
      "storage": {"type": "object", "additionalProperties": false, "required": ["type"],
        "x-tenon-slot": "storage",
        "description": "where that is kept",
        "properties": {"type": {"$ref": "#/definitions/type"}, "options": {"$ref": "#/definitions/options"}}}}},
  "count": {"type": ["integer", "null"], "minimum": 1, "maximum": 9007199254740991, "default": null},
  "every": {"type": ["integer", "null"], "minimum": 0, "maximum": 9007199254740991, "default": 0},
  "degree": {"type": "integer", "minimum": -1, "maximum": 1000000}
},
"type": "object", "additionalProperties": false, "required": ["data", "optimizer", "train"],
"x-tenon-printed": {"allOf": [
  {"oneOf": [{"required": ["model"]}, {"required": ["models"]}]},
  {"oneOf": [{"required": ["loss"]}, {"required": ["losses"]}]}]},
"properties": {
  "$schema": {"type": "string",
    "description": "the schema that an editor holds the recipe against; a run has no use for it"},
  "name": {"$ref": "#/definitions/name",
    "description": "names the run folder; the name of the recipe file where it is absent"},
  "seed": {"type": "integer", "minimum": 0, "default": 1,
    "description": "of every random number of the run"},
  "deterministic": {"type": "boolean", "default": true,
    "description": "use only kernels that give the same bits each time"},
  "device": {"type": "string", "pattern": "^(auto|cpu|cuda(:[0-9]{1,3})?)$", "default": "cpu",
    "description": "what the run computes on: \"cpu\", \"cuda\", \"cuda:N\", or \"auto\", a GPU where there is one"},
  "threads": {"type": "object", "additionalProperties": false, "default": {},
    "description": "threads of this process",
    "properties": {
      "compute": {"type": ["integer", "null"], "minimum": 1, "maximum": 4096, "default": null,
        "description": "threads of the operators; null is one a core. Results depend on it, in the last bits"}}},
  "plugins": {"type": "object", "additionalProperties": false, "default": {},
    "description": "which plugins the run needs",
    "properties": {
      "need": {"type": "array", "default": [],
        "items": {"type": "string",
          "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*( *(>=|==) *[0-9]+(\\.[0-9]+){0,2})?$"},
        "description": "plugin ids, each with a version if wanted: \"com.example.ctr >= 1.2\""},
      "timeout_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": 1800,
        "description": "how long a call into a plugin may take before the run is ended; null is for ever. Datasets have data.timeout_seconds"},
      "lock": {"x-tenon-unavailable": {"what": "lock files of plugins", "unless": [null]}}}},
  "model": {"$ref": "#/definitions/model"},
  "models": {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/definitions/model"},
    "x-tenon-printed": {"maxProperties": 1, "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,100}$"}},
    "description": "the model, by a name of its own; \"model\" is short for one called \"main\""},
  "data": {"type": "object", "additionalProperties": false, "required": ["batch_size", "train"],
    "description": "datasets and how they are read",
    "properties": {
      "batch_size": {"type": "integer", "minimum": 1, "maximum": 1000000000, "description": "samples of one microbatch of a rank"},
      "shuffle": {"type": "boolean", "default": true,
        "description": "draw a new order each epoch, for data that can be read by index; evaluation is never shuffled"},
      "loader_threads": {"type": "integer", "minimum": 1, "maximum": 1024, "default": 1,
        "description": "threads that read batches"},
      "prefetch": {"type": "integer", "minimum": 1, "maximum": 65536, "default": 4,
        "description": "batches read ahead of the step"},
      "timeout_seconds": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": 1800,
        "description": "how long a call into a dataset may take before the run is ended; null is for ever, as for data that is waited for"},
      "last": {"enum": ["short", "drop"], "default": "short",
        "description": "what becomes of a global batch that is not full"},
      "train": {"$ref": "#/definitions/dataset"},
      "eval": {"$ref": "#/definitions/datasets",
        "description": "the dataset to evaluate on, or an object with datasets by name"},
      "test": {"$ref": "#/definitions/datasets",
        "description": "the dataset to evaluate on once, whole, when the run is done, or an object with datasets by name"},
      "skip_windows": {"type": "array", "default": [],
        "items": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
        "description": "windows of data.train to leave out: labels, in which '*' is any text and '?' any character, or ids"}}},
  "features": {"type": "array", "default": [],
    "description": "columns that are computed from columns of the batch, before anything else sees it",
    "items": {"type": "object", "additionalProperties": false, "required": ["name", "from", "do"],
      "properties": {
        "name": {"type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$",
          "description": "the column that is made; NAME.0, NAME.1, ... where the last step makes several"},
        "from": {"type": ["string", "array"], "minItems": 1,
          "items": {"type": "string"},
          "description": "columns of the batch, or features that stand before this one: all are given to the first step"},
        "do": {"type": "array", "minItems": 1,
          "items": {"$ref": "#/definitions/component", "x-tenon-slot": "feature"},
          "description": "the steps, each of which is given what the one before it makes"}}}},
  "tables": {"type": "object", "default": {}, "additionalProperties": {"$ref": "#/definitions/table"},
    "x-tenon-printed": {"propertyNames": {"pattern": "^[A-Za-z0-9_.*?-]{1,100}$"}},
    "description": "tables of rows by id, by name; a name with '*' or '?' is a pattern, and says what the tables it matches do not say themselves"},
  "loss": {"$ref": "#/definitions/loss"},
  "losses": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/loss"},
    "description": "the losses, whose weighted sum is trained on; \"loss\" is short for one"},
  "metrics": {"type": "array", "default": [], "items": {"$ref": "#/definitions/metric"},
    "description": "what is measured in evaluations beside the loss, and in training where the metric is told to"},
  "optimizer": {"type": "object", "additionalProperties": false, "required": ["type"],
    "description": "the optimizer of dense parameters", "x-tenon-slot": "optimizer",
    "properties": {
      "type": {"$ref": "#/definitions/type"},
      "options": {"$ref": "#/definitions/options"},
      "groups": {"type": "array", "default": [],
        "description": "parameters with a rule of their own; the first group that matches a parameter's name wins",
        "items": {"type": "object", "required": ["match"],
          "properties": {
            "match": {"type": "string", "minLength": 1,
              "description": "a pattern of parameter names; '*' is any text, '?' any character"},
            "type": {"$ref": "#/definitions/type"}}}}}},
  "lr_scheduler": {"type": ["object", "null"], "default": null, "additionalProperties": false, "required": ["type"],
    "x-tenon-slot": "lr_scheduler",
    "description": "a factor on each group's rate by step; null leaves the rates as they are",
    "properties": {"type": {"$ref": "#/definitions/type"}, "options": {"$ref": "#/definitions/options"}}},
  "hooks": {"type": "array", "default": [],
    "items": {"$ref": "#/definitions/component", "x-tenon-slot": "hook"},
    "description": "hooks, in the order in which they are called where nothing else orders them"},
  "train": {"type": "object", "additionalProperties": false,
    "description": "how long and how to train",
    "x-tenon-printed": {"anyOf": [
      {"required": ["steps"], "properties": {"steps": {"type": "integer"}}},
      {"required": ["epochs"], "properties": {"epochs": {"type": "integer"}}},
      {"required": ["windows"], "properties": {"windows": {"type": "integer"}}},
      {"required": ["tokens"], "properties": {"tokens": {"type": "integer"}}},
      {"required": ["minutes"], "properties": {"minutes": {"type": "number"}}}]},
    "properties": {
      "steps": {"$ref": "#/definitions/count", "description": "end after so many steps"},
      "epochs": {"$ref": "#/definitions/count", "description": "end after so many epochs"},
      "windows": {"$ref": "#/definitions/count", "description": "end after so many windows"},
      "tokens": {"$ref": "#/definitions/count", "description": "end after the step that reaches so many tokens; padding is not counted"},
      "minutes": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": null,
        "description": "end after the step in which so many minutes have passed since the start, evaluations included"},
      "steps_per_window": {"$ref": "#/definitions/count", "description": "end each window after so many steps at the latest"},
      "total_steps": {"$ref": "#/definitions/count",
        "description": "the length of the schedule, where the horizon is not in steps"},
      "global_batch_size": {"$ref": "#/definitions/count",
        "description": "samples of a step over all ranks and microbatches; accumulation follows from it"},
      "global_batch_tokens": {"x-tenon-unavailable": {"what": "batches by tokens", "unless": [null]}},
      "gradient_accumulation": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000000000, "default": 1,
        "description": "microbatches of a step; null where global_batch_size says it"},
      "normalize": {"enum": ["items", "microbatch"], "default": "items",
        "description": "divide the gradient by the items of the whole step, or average the means of microbatches"},
      "loss_tile": {"type": ["integer", "null"], "minimum": 1, "default": null,
        "description": "positions of a sequence that the model's last block and the losses take at once; null: all"},
      "clip_grad_norm": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": null,
        "description": "the largest norm of all gradients together"},
      "clip_grad_value": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": null,
        "description": "the largest absolute value of an element of a gradient"},
      "precision": {"enum": ["fp32", "fp64", "bf16_autocast", "fp16_autocast", "bf16_params", "bf16"],
        "default": "fp32",
        "description": "of parameters and arithmetic"},
      "non_finite": {"type": "object", "additionalProperties": false, "default": {},
        "description": "updates in which a loss or a gradient is not finite",
        "properties": {
          "policy": {"enum": ["skip", "stop", "ignore"], "default": "skip",
            "description": "leave such an update out, end the run at the first one, or make it all the same"},
          "max_in_a_row": {"type": "integer", "minimum": 1, "maximum": 1000000000, "default": 10,
            "description": "end the run where so many updates in a row were left out"}}},
      "recompute": {"enum": ["none", "blocks"], "default": "none",
        "description": "keep activations, or run each block's forward again in backward"},
      "log_every": {"$ref": "#/definitions/every", "default": 10,
        "description": "steps between two lines of metrics; the first step always has one"},
      "overfit_batch": {"type": "boolean", "default": false,
        "description": "train on the batch of the first step, with all its microbatches, again and again; windows, epochs and evaluation are as usual"},
      "exit_at_step": {"$ref": "#/definitions/count", "description": "stop early, with status 75, when this step is done"},
      "exit_after_steps": {"$ref": "#/definitions/count",
        "description": "stop early, with status 75, after so many steps of this process"},
      "kill_switch": {"type": ["string", "null"], "minLength": 1, "default": null, "x-tenon-path": true,
        "description": "stop early, with status 75, when this file appears; a relative path starts at the recipe's folder"}}},
  "eval": {"type": "object", "additionalProperties": false, "default": {},
    "description": "when and how much to evaluate",
    "properties": {
      "every_steps": {"$ref": "#/definitions/every", "description": "steps between two evaluations; 0 or null is never"},
      "every_windows": {"$ref": "#/definitions/every", "description": "windows between two evaluations"},
      "every_epochs": {"$ref": "#/definitions/every", "description": "epochs between two evaluations"},
      "at_start": {"type": "boolean", "default": false, "description": "evaluate before the first step"},
      "at_end": {"type": "boolean", "default": true,
        "description": "evaluate after the last step, where there is a dataset for it"},
      "batches": {"$ref": "#/definitions/count", "description": "batches of an evaluation; null is all"},
      "next_window": {"type": "boolean", "default": false,
        "description": "evaluate each window of data.train with the parameters so far, then train on it; figures next/..."},
      "with_window": {"enum": [null, "before", "after"], "default": null,
        "description": "evaluate the next window of each set of data.eval that has windows, before or after each window of data.train"},
      "keep_best": {"type": ["object", "null"], "default": null, "additionalProperties": false,
        "required": ["metric", "mode"],
        "description": "keep the parameters of the best evaluation in memory, and end the run with them",
        "properties": {
          "metric": {"type": "string", "minLength": 1, "description": "the figure that says which is best: \"eval/loss\""},
          "mode": {"enum": ["min", "max"], "description": "whether the smallest or the largest is best"}}}}},
  "checkpoint": {"type": ["object", "null"], "default": null, "additionalProperties": false,
    "description": "when the state of the run is saved, and what is kept of it; null saves nothing",
    "properties": {
      "every_steps": {"$ref": "#/definitions/every", "description": "steps between two checkpoints; 0 or null is never"},
      "every_windows": {"$ref": "#/definitions/every", "description": "windows of data.train between two checkpoints"},
      "every_epochs": {"$ref": "#/definitions/every", "description": "epochs between two checkpoints"},
      "every_minutes": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": null,
        "description": "minutes by the first rank's clock after which the next step is saved; null is never"},
      "at_start": {"type": "boolean", "default": false, "description": "save before the first step: all is initialised, nothing is trained"},
      "at_end": {"type": "boolean", "default": true, "description": "save when the run is done, or stops early on request"},
      "on_signal": {"type": "boolean", "default": true,
        "description": "save on SIGTERM and SIGINT, then stop with status 75; save on SIGUSR1 and go on"},
      "grace_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 86400, "default": 60,
        "description": "after a signal that stops the run: how long saving may take"},
      "staging": {"enum": ["copy", "stream"], "default": "copy",
        "description": "copy the state and write while the run goes on, or let the run wait and write piece by piece, for less memory"},
      "retries": {"type": "integer", "minimum": 0, "maximum": 100, "default": 2,
        "description": "how often a write that failed is tried again"},
      "on_failure": {"enum": ["continue", "stop"], "default": "continue",
        "description": "where a checkpoint cannot be written: go on with a warning, or end the run"},
      "keep_last": {"type": "integer", "minimum": 0, "maximum": 1000000000, "default": 3,
        "description": "how many of the newest checkpoints are kept; 0 is all"},
      "keep_every_steps": {"$ref": "#/definitions/every",
        "description": "beside the newest, keep those whose step is a multiple of this; 0 or null is none"},
      "keep_best": {"type": ["object", "null"], "default": null, "additionalProperties": false,
        "required": ["metric", "mode"],
        "description": "beside the newest, keep those of the best evaluations",
        "properties": {
          "metric": {"type": "string", "minLength": 1, "description": "the figure that says which is best: \"eval/loss\""},
          "mode": {"enum": ["min", "max"], "description": "whether the smallest or the largest is best"},
          "count": {"type": "integer", "minimum": 1, "maximum": 1000000000, "default": 1, "description": "how many of the best are kept"}}},
      "on_spike": {"enum": ["go_on", "roll_back"], "default": "go_on",
        "description": "where train.non_finite would end the run, or a hook has seen a spike: end it, or go back to the last good checkpoint and leave out the data since"},
      "max_roll_backs": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 3,
        "description": "how often a run goes back, all its parts together; then it ends"},
      "exclude": {"type": "array", "items": {"type": "string", "minLength": 1}, "default": [],
        "description": "patterns of names of parameters and tables that are not saved, nor what their optimizer keeps; '*' is any text, '?' any character"},
      "exports": {"type": "array", "default": [],
        "description": "the parameters in another form, each by a schedule of its own",
        "items": {"type": "object", "additionalProperties": false, "required": ["format"],
          "properties": {
            "format": {"enum": ["weights", "hf"],
              "description": "a checkpoint of parameters and rows of tables alone, or a folder as Hugging Face's transformers keep models"},
            "every_steps": {"$ref": "#/definitions/every", "description": "steps between two exports; 0 or null is never"},
            "every_windows": {"$ref": "#/definitions/every", "description": "windows of data.train between two exports"},
            "every_epochs": {"$ref": "#/definitions/every", "description": "epochs between two exports"},
            "at_end": {"type": "boolean", "default": false, "description": "export what the run has ended with, when it is done"},
            "keep_last": {"type": "integer", "minimum": 0, "maximum": 1000000000, "default": 3,
              "description": "how many of the newest exports are kept; 0 is all"}}}},
      "storage": {"type": ["object", "null"], "default": null, "additionalProperties": false, "required": ["type"],
        "x-tenon-slot": "storage",
        "description": "where checkpoints are kept; null is the run folder",
        "properties": {"type": {"$ref": "#/definitions/type"}, "options": {"$ref": "#/definitions/options"}}}}},
  "load": {"type": "array", "default": [],
    "description": "what a run begins with that others have trained, one after the other; a run that goes on from a checkpoint loads nothing anew",
    "items": {"type": "object", "additionalProperties": false, "required": ["from"],
      "properties": {
        "from": {"$ref": "#/definitions/load_source", "type": ["string", "object", "array"], "minItems": 1,
          "items": {"$ref": "#/definitions/load_source"},
          "description": "a run folder (its newest sound checkpoint), a checkpoint, a folder or file of safetensors, or a place in a storage; of a list the first that is there and sound"},
        "parts": {"type": "array", "minItems": 1, "default": ["parameters", "tables"],
          "items": {"enum": ["parameters", "tables", "optimizer", "data"]},
          "description": "what is taken of it: parameters, rows of tables, what optimizers keep, where the data is"},
        "match": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}, "default": ["*"],
          "description": "patterns of names of parameters and tables here that are loaded; '*' is any text, '?' any character"},
        "exclude": {"type": "array", "items": {"type": "string", "minLength": 1}, "default": [],
          "description": "patterns of those that are left as they are"},
        "rename": {"type": "array", "default": [],
          "description": "names there that are others here; the first that fits a name",
          "items": {"type": "object", "additionalProperties": false, "required": ["from", "to"],
            "properties": {
              "from": {"type": "string", "minLength": 1, "description": "the name there; '*' is any text"},
              "to": {"type": "string", "minLength": 1, "description": "the name here; each '*' is what it was there"}}}},
        "strict": {"type": "boolean", "default": true,
          "description": "refuse what is missing, left over or of another shape; else take what fits, and tell the rest"},
        "layout": {"enum": [null, "own", "hf"], "default": null,
          "description": "how safetensors are called: as the model calls its parameters, or as in Hugging Face's folders; null: hf where the model's plugin knows it"},
        "every_steps": {"$ref": "#/definitions/every", "description": "load it again before the step after each so many; 0 or null is at the start alone"},
        "every_windows": {"$ref": "#/definitions/every", "description": "load it again before the window after each so many"},
        "every_epochs": {"$ref": "#/definitions/every", "description": "load it again before the epoch after each so many"}}}},
  "parallel": {"type": "object", "additionalProperties": false, "default": {},
    "description": "how the model and its data are shared out over ranks",
    "properties": {
      "replicate": {"$ref": "#/definitions/degree", "default": 1,
        "description": "ranks, or groups of ranks, that each hold the whole model; -1: what shard leaves"},
      "shard": {"$ref": "#/definitions/degree", "default": -1,
        "description": "ranks that hold one model together; -1: what replicate leaves"},
      "tensor": {"x-tenon-unavailable": {"what": "tensor parallelism", "unless": [1]}},
      "context": {"x-tenon-unavailable": {"what": "context parallelism", "unless": [1]}},
      "pipeline": {"x-tenon-unavailable": {"what": "pipeline parallelism", "unless": [1]}},
      "expert": {"x-tenon-unavailable": {"what": "expert parallelism", "unless": [1]}},
      "stage": {"type": "integer", "minimum": 1, "maximum": 3, "default": 3,
        "description": "what is sharded (ZeRO): 1 the optimizer's state, 2 gradients too, 3 parameters too"},
      "reshard_after_forward": {"type": ["boolean", "null"], "default": null,
        "description": "stage 3: free a block's parameters between its forward and its backward; null: but for the last block's"},
      "unsharded": {"type": "array", "items": {"type": "string", "minLength": 1}, "default": [],
        "description": "patterns of names of blocks whose parameters each rank keeps whole"},
      "bucket_bytes": {"type": "integer", "minimum": 1, "default": 26214400,
        "description": "replicated: gradients of neighbouring blocks that are reduced together, in bytes"},
      "gradient_dtype": {"enum": ["stored", "bf16"], "default": "stored",
        "description": "how gradients travel: as they are stored, or in half the bytes"},
      "offload": {"type": "boolean", "default": false,
        "description": "keep parameters, gradients and the optimizer's state in host memory; a block's parameters are on the device while it runs"},
      "start_timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "default": 300,
        "description": "how long ranks wait for each other until the first step is done"},
      "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "default": 100,
        "description": "how long ranks wait for each other from then on"},
      "interface": {"type": ["string", "null"], "minLength": 1, "default": null,
        "description": "the network interface that ranks talk over; null: the one by which the first rank is reached"},
      "share_memory": {"type": "boolean", "default": true,
        "description": "ranks of one machine send each other tensors of the CPU through memory; else by the network"},
      "check_collectives": {"type": "boolean", "default": false,
        "description": "compare each collective between ranks before it begins: for finding mistakes"},
      "check_replicas_every": {"$ref": "#/definitions/every", "default": 0,
        "description": "steps between two comparisons of what replicas hold, by a hash; 0 or null is never"}}},
  "sinks": {"type": "array", "default": [{"type": "jsonl"}],
    "items": {"$ref": "#/definitions/component", "x-tenon-slot": "metric_sink"},
    "description": "where metrics are written"}
}
})json";

// Replaces each {"$ref": "#/definitions/NAME", ...} by the definition, under the keys beside it.
template <class Json>
Json resolved(const Json& schema, const Json& definitions) {
  if (schema.is_array()) {
    Json result = Json::array();
    for (const Json& entry : schema) {
      result.push_back(resolved(entry, definitions));
    }
    return result;
  }
  if (!schema.is_object()) {
    return schema;
  }
  Json result = Json::object();
  const auto reference = schema.find("$ref");
  if (reference != schema.end()) {
    const auto& path = reference->template get_ref<const std::string&>();
    result = resolved(definitions.at(path.substr(path.rfind('/') + 1)), definitions);
  }
  for (const auto& [key, value] : schema.items()) {
    if (key != "$ref" && key != "definitions") {
      result[key] = resolved(value, definitions);
    }
  }
  return result;
}

json load_schema() {
  const json text = parse_json(kSchemaText, "the schema of the recipe");
  return resolved(text, text.at("definitions"));
}

}  // namespace

const json& recipe_schema() {
  static const json schema = load_schema();
  return schema;
}

const json& dataset_schema() {
  return recipe_schema()["properties"]["data"]["properties"]["train"];
}

std::string recipe_schema_text() {
  using nlohmann::ordered_json;
  const ordered_json text = ordered_json::parse(kSchemaText);
  return resolved(text, text.at("definitions")).dump(2);
}

std::string as_name(std::string_view text) {
  std::string name(text.substr(0, 100));
  for (char& c : name) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '-';
    c = is_good ? c : '_';
  }
  if (name.empty() || name.front() == '-') {
    name.insert(0, "_");
  }
  return name.substr(0, 100);
}

bool is_single_dataset(const json& eval) {
  // "options" and "mix" are keys of a dataset, so no set can have these names.
  return eval.empty() || eval.contains("options") || eval.contains("mix") ||
         std::ranges::any_of(eval, [](const json& entry) { return !entry.is_object(); });
}

std::vector<EvalSite> eval_sites(const json& root) {
  std::vector<EvalSite> sites;
  for (const std::string list : {"eval", "test"}) {
    const std::string pointer = "/data/" + list;
    const json* const datasets = find_at(root, pointer);
    if (datasets == nullptr || !datasets->is_object()) {
      continue;
    }
    if (is_single_dataset(*datasets)) {
      sites.push_back({.list = list, .name = "", .pointer = pointer});
      continue;
    }
    for (const std::string& name : keys_of(*datasets)) {
      sites.push_back({.list = list, .name = name, .pointer = join_pointer(pointer, name)});
    }
  }
  return sites;
}

std::vector<std::string> dataset_pointers(const json& root) {
  std::vector<std::string> pointers;
  if (const json* const train = find_at(root, "/data/train"); train != nullptr) {
    pointers.emplace_back("/data/train");
  }
  for (const EvalSite& site : eval_sites(root)) {
    pointers.push_back(site.pointer);
  }
  return pointers;
}

std::string mix_name(const std::string& type, std::size_t number) {
  const std::size_t slash = type.rfind('/');
  const std::string name = as_name(slash == std::string::npos ? type : type.substr(slash + 1));
  return name.substr(0, 30) + "-" + std::to_string(number + 1);
}

}  // namespace tenon
