// SPDX-License-Identifier: Apache-2.0
//
// The section "checkpoint" of a recipe.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/resume_rule.hpp"
#include "host/recipe/schedule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// How to save: copy the state and write it while the run continues, or write it piece by piece
// while the run waits, which needs less memory.
enum class CheckpointStaging { kCopy, kStream };

// What to do if a checkpoint cannot be written.
enum class OnSaveFailure { kContinue, kStop };

// What to do on a loss spike, or if train.non_finite ends the run.
enum class OnSpike { kContinue, kRollBack };

// Retention of the checkpoints with the best evaluations.
struct KeepBestCheckpoints {
  std::string metric;
  bool is_max = false;
  std::int64_t count = 1;

  template <class Section>
  static void bind(Section& s) {
    s.key("metric", &KeepBestCheckpoints::metric)
        .non_empty()
        .required()
        .doc("metric that ranks evaluations, such as \"eval/loss\"");
    s.choice("mode", &KeepBestCheckpoints::is_max, {{"min", false}, {"max", true}})
        .required()
        .doc("whether the smallest or the largest value is best");
    s.key("count", &KeepBestCheckpoints::count)
        .min(1)
        .max(1000000000)
        .doc("number of best checkpoints to keep");
  }
};

// A checkpoint of parameters and rows only, or a folder in the layout of Hugging Face transformers.
enum class ExportFormat { kWeights, kHf };

struct ExportRecipe {
  ExportFormat format = ExportFormat::kWeights;
  Schedule every = {};
  bool at_end = false;
  std::int64_t keep_last = 3;  // 0: all

  template <class Section>
  static void bind(Section& s) {
    s.choice("format",
             &ExportRecipe::format,
             {{"weights", ExportFormat::kWeights}, {"hf", ExportFormat::kHf}})
        .required()
        .doc("checkpoint of parameters and table rows only, or a Hugging Face transformers folder");
    s.schedule(&ExportRecipe::every,
               {.steps = "steps between exports; 0 or null: never",
                .windows = "windows of data.train between exports; 0 or null: never",
                .epochs = "epochs between exports; 0 or null: never"});
    s.key("at_end", &ExportRecipe::at_end).doc("export the final parameters at the end of the run");
    s.key("keep_last", &ExportRecipe::keep_last)
        .min(0)
        .max(1000000000)
        .doc("number of newest exports to keep; 0: all");
  }
};

struct CheckpointRecipe {
  Schedule every = {};
  std::optional<double> every_minutes;
  bool at_start = false;
  bool at_end = true;
  bool on_signal = true;
  double grace_seconds = 60;
  CheckpointStaging staging = CheckpointStaging::kCopy;
  std::int64_t retries = 2;
  OnSaveFailure on_failure = OnSaveFailure::kContinue;
  std::int64_t keep_last = 3;         // 0: all
  std::int64_t keep_every_steps = 0;  // 0: none are kept by step
  std::optional<KeepBestCheckpoints> keep_best;
  OnSpike on_spike = OnSpike::kContinue;
  std::int64_t max_roll_backs = 3;
  std::vector<std::string> exclude;  // patterns of parameters and tables
  std::vector<ExportRecipe> exports;
  std::optional<ComponentUse> storage;  // null: the run folder

  template <class Section>
  static void bind(Section& s) {
    s.schedule(&CheckpointRecipe::every,
               {.steps = "steps between checkpoints; 0 or null: never",
                .windows = "windows of data.train between checkpoints; 0 or null: never",
                .epochs = "epochs between checkpoints; 0 or null: never"});
    s.key("every_minutes", &CheckpointRecipe::every_minutes)
        .above(0)
        .doc("minutes between checkpoints, by the clock of rank 0; null: never");
    s.key("at_start", &CheckpointRecipe::at_start)
        .doc("save the initialized state before the first step");
    s.key("at_end", &CheckpointRecipe::at_end)
        .doc("save at the end of the run, and when it stops early on request");
    s.key("on_signal", &CheckpointRecipe::on_signal)
        .doc("on SIGTERM and SIGINT, save and stop with status 75; on SIGUSR1, save and continue");
    s.key("grace_seconds", &CheckpointRecipe::grace_seconds)
        .above(0)
        .max(86400)
        .doc("longest save after a signal that stops the run, in seconds");
    s.choice("staging",
             &CheckpointRecipe::staging,
             {{"copy", CheckpointStaging::kCopy}, {"stream", CheckpointStaging::kStream}})
        .doc(
            "copy the state and write in the background, or block the run and write piece by "
            "piece to save memory");
    s.key("retries", &CheckpointRecipe::retries).min(0).max(100).doc("retries of a failed write");
    s.choice("on_failure",
             &CheckpointRecipe::on_failure,
             {{"continue", OnSaveFailure::kContinue}, {"stop", OnSaveFailure::kStop}})
        .doc("if a checkpoint cannot be written: continue with a warning, or stop the run");
    bind_retention(s);
  }

 private:
  template <class Section>
  static void bind_retention(Section& s) {
    s.key("keep_last", &CheckpointRecipe::keep_last)
        .min(0)
        .max(1000000000)
        .doc("number of newest checkpoints to keep; 0: all");
    s.key("keep_every_steps", &CheckpointRecipe::keep_every_steps)
        .every()
        .doc("also keep checkpoints whose step is a multiple of this; 0 or null: none");
    s.key("keep_best", &CheckpointRecipe::keep_best)
        .doc("also keep the checkpoints of the best evaluations; null: none");
    s.choice("on_spike",
             &CheckpointRecipe::on_spike,
             {{"continue", OnSpike::kContinue}, {"roll_back", OnSpike::kRollBack}})
        .formerly("go_on", "continue")
        .doc(
            "on a loss spike, or if train.non_finite ends the run: continue as usual, or roll back "
            "to "
            "a good checkpoint");
    s.key("max_roll_backs", &CheckpointRecipe::max_roll_backs)
        .min(1)
        .max(1000000)
        .doc("roll-backs, over all resumes of the run, after which it fails");
    s.key("exclude", &CheckpointRecipe::exclude)
        .non_empty()
        .doc(
            "name patterns of parameters and tables to save neither values nor optimizer state "
            "of; '*' matches any text, '?' any character");
    s.key("exports", &CheckpointRecipe::exports)
        .doc("copies of the parameters in other formats, each with its own schedule");
    s.key("storage", &CheckpointRecipe::storage)
        .component("storage")
        .doc("where to keep checkpoints; null: the run folder");
  }
};

}  // namespace tenon
