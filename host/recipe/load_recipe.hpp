// SPDX-License-Identifier: Apache-2.0
//
// The section "load" of a recipe.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/schedule.hpp"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

// A source of a load.
struct LoadSource {
  std::string path;                     // absolute; with a storage, its name in the storage
  std::optional<ComponentUse> storage;  // null: local files

  template <class Section>
  static void bind(Section& s) {
    s.text_form(&LoadSource::path);
    s.key("path", &LoadSource::path)
        .non_empty()
        .required()
        .doc("path in the storage: RUN, RUN/checkpoints or RUN/checkpoints/NAME");
    s.key("storage", &LoadSource::storage)
        .component("storage")
        .required()
        .doc("storage that holds the path");
  }
};

// A name in the source and its name in this run. Each '*' of `to` becomes the text that it matched.
struct LoadRename {
  std::string from;
  std::string to;

  template <class Section>
  static void bind(Section& s) {
    s.key("from", &LoadRename::from)
        .non_empty()
        .required()
        .doc("name in the source; '*' matches any text");
    s.key("to", &LoadRename::to)
        .non_empty()
        .required()
        .doc("name in this run; each '*' becomes the text that it matched");
  }
};

// Which parameters of a checkpoint are read: those of the best evaluation so far, which
// eval.keep_best keeps, or those of the last step. kAuto: the best where only parameters and tables
// are read and a best is kept, otherwise the last.
enum class WhichParameters { kAuto, kBest, kLast };

// Tensor names in files other than checkpoints. kAuto: the layout "hf" if the model's plugin knows
// it.
enum class LoadLayout { kAuto, kOwn, kHf };

// Parameters, rows and other state to initialize from another run.
struct LoadRecipe {
  std::string pointer;           // "/load/0"
  std::vector<LoadSource> from;  // the first that exists and is valid
  bool has_parameters = true;
  bool has_tables = true;
  bool has_optimizer = false;
  bool has_data = false;
  std::vector<std::string> match = {"*"};  // patterns of names in this run to load
  std::vector<std::string> exclude;        // patterns of names in this run to skip
  std::vector<LoadRename> rename;          // the first that matches applies
  std::vector<std::string> resize;         // patterns of names in this run that may get rows
  std::vector<std::string> may_differ;     // patterns of keys of config.json
  bool is_strict = true;
  WhichParameters which = WhichParameters::kAuto;
  LoadLayout layout = LoadLayout::kAuto;
  Schedule every = {};  // never: load at the start only

  template <class Section>
  static void bind(Section& s) {
    s.place(&LoadRecipe::pointer);
    s.key("from", &LoadRecipe::from)
        .or_one()
        .min_items(1)
        .required()
        .doc(
            "run folder, checkpoint, safetensors file or folder, or storage path; of a list, the "
            "first valid one");
    s.flags("parts",
            {{"parameters", &LoadRecipe::has_parameters},
             {"tables", &LoadRecipe::has_tables},
             {"optimizer", &LoadRecipe::has_optimizer},
             {"data", &LoadRecipe::has_data}})
        .min_items(1)
        .doc("state to load: parameters, table rows, optimizer state, data position");
    s.key("match", &LoadRecipe::match)
        .non_empty()
        .min_items(1)
        .doc(
            "name patterns of parameters and tables to load; '*' matches any text, '?' any "
            "character");
    s.key("exclude", &LoadRecipe::exclude)
        .non_empty()
        .doc("name patterns of parameters and tables to skip");
    s.key("rename", &LoadRecipe::rename)
        .doc("names in the source that differ in this run; the first that matches a name wins");
    s.key("resize", &LoadRecipe::resize)
        .non_empty()
        .doc(
            "name patterns of parameters with more rows here, for new tokens: keep the old rows "
            "and add rows near their mean");
    s.key("may_differ", &LoadRecipe::may_differ)
        .non_empty()
        .doc(
            "keys of config.json, as load.mismatch names them, that may differ from the recipe; "
            "'*' matches any text");
    s.key("strict", &LoadRecipe::is_strict)
        .doc(
            "fail on missing, unexpected or misshaped tensors; if false, they keep their initial "
            "values, with a warning");
    s.choice("which",
             &LoadRecipe::which,
             {{nullptr, WhichParameters::kAuto},
              {"best", WhichParameters::kBest},
              {"last", WhichParameters::kLast}})
        .doc(
            "parameters of a checkpoint: of the best evaluation (eval.keep_best) or the last step; "
            "null: best if kept, last with \"optimizer\" or \"data\"");
    s.choice("layout",
             &LoadRecipe::layout,
             {{nullptr, LoadLayout::kAuto}, {"own", LoadLayout::kOwn}, {"hf", LoadLayout::kHf}})
        .doc(
            "tensor names in safetensors files: the model's own, or Hugging Face's; null: hf if "
            "the model's plugin knows it");
    s.schedule(&LoadRecipe::every,
               {.steps = "reload every N steps; 0 or null: load only at the start",
                .windows = "reload every N windows; 0 or null: load only at the start",
                .epochs = "reload every N epochs; 0 or null: load only at the start"});
  }
};

}  // namespace tenon
