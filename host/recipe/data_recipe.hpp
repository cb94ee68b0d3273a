// SPDX-License-Identifier: Apache-2.0
//
// The sections "data" and "features" of a recipe.
#pragma once

#include "host/recipe/component_use.hpp"
#include "host/recipe/resume_rule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

// What to do when a source of a mix ends.
enum class WhenSourceEnds { kRepeat, kStop, kContinue };

// A dataset of a mix.
struct MixEntry {
  std::string name;
  double weight = 1.0;
  ComponentUse use;

  template <class Section>
  static void bind(Section& s) {
    s.key("name", &MixEntry::name)
        .max_length(40)
        .pattern("^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
        .absent()
        .doc("name in the source's metrics; TYPE-NUMBER, such as text-1, if absent");
    s.component("dataset", &MixEntry::use);
    s.key("weight", &MixEntry::weight)
        .min(0)
        .required()
        .doc("share of the samples, relative to the other weights; 0: not read");
  }
};

enum class PackingStrategy { kGreedy, kBestFit };

// What to do with a sample that is longer than a row of packing.
enum class OverLongSamples { kError, kDrop, kCut, kSplit };

// Samples side by side in rows of equal length.
struct PackingUse {
  std::int64_t length = 0;
  PackingStrategy strategy = PackingStrategy::kBestFit;
  std::int64_t group = 16384;
  OverLongSamples over_long = OverLongSamples::kError;

  template <class Section>
  static void bind(Section& s) {
    s.key("length", &PackingUse::length).min(1).max(4194304).required().doc("tokens of a row");
    s.choice("strategy",
             &PackingUse::strategy,
             {{"greedy", PackingStrategy::kGreedy}, {"best_fit", PackingStrategy::kBestFit}})
        .doc(
            "fill rows with samples in their order, or put each sample of a group, longest first, "
            "into the fullest row with room");
    s.key("group", &PackingUse::group)
        .min(1)
        .max(16777216)
        .doc("consecutive samples of the order that are packed together");
    s.choice("over_long",
             &PackingUse::over_long,
             {{"error", OverLongSamples::kError},
              {"drop", OverLongSamples::kDrop},
              {"cut", OverLongSamples::kCut},
              {"split", OverLongSamples::kSplit}})
        .doc(
            "samples longer than a row: an error, skipped, cut at the end, or split into pieces "
            "that do not attend to each other");
  }
};

// One dataset, or a mix of several.
struct DatasetUse {
  ComponentUse use = {};  // if `mix` is empty
  std::vector<MixEntry> mix = {};
  WhenSourceEnds when_one_ends = WhenSourceEnds::kRepeat;
  std::optional<PackingUse> packing = {};

  template <class Section>
  static void bind(Section& s) {
    s.doc("a dataset, or a mix of several");
    s.component("dataset", &DatasetUse::use, "mix").absent();
    s.key("mix", &DatasetUse::mix)
        .min_items(1)
        .absent()
        .doc("several datasets, each read in proportion to its weight");
    s.choice("when_one_ends",
             &DatasetUse::when_one_ends,
             {{"repeat", WhenSourceEnds::kRepeat},
              {"stop", WhenSourceEnds::kStop},
              {"continue", WhenSourceEnds::kContinue}})
        .absent()
        .doc(
            "with mix, at the end of a source: repeat it (the default), stop the epoch, or "
            "continue without it");
    s.key("packing", &DatasetUse::packing)
        .absent()
        .doc("put several samples into each row of a batch; batch sizes then count rows");
  }
};

struct EvalSetUse {
  std::string list;  // "eval" or "test"
  std::string name;  // "" for the unnamed dataset
  DatasetUse data;
};

// Returns the prefix of the names of a set's metrics: "eval/", "eval/NAME/" or "test/...".
std::string eval_prefix(const EvalSetUse& set);

// A pattern of window labels, or a window's id.
using WindowName = std::variant<std::string, std::uint64_t>;

enum class LastBatch { kShort, kDrop };

// What a resume does if files of data or tokenizers are not those of the checkpoint.
enum class OnDataChange { kStop, kContinue };

struct DataRecipe {
  std::int64_t batch_size = 0;
  bool shuffle = true;
  std::int64_t loader_threads = 1;
  std::int64_t prefetch = 4;
  LastBatch last = LastBatch::kShort;
  OnDataChange on_change = OnDataChange::kStop;
  std::optional<double> timeout_seconds = 1800;  // limit of a call into a dataset; null: no limit
  DatasetUse train;
  std::vector<EvalSetUse> eval;  // by name, or one without a name
  std::vector<EvalSetUse> test;
  std::vector<WindowName> skip_windows;  // windows of `train`

  template <class Section>
  static void bind(Section& s) {
    s.key("batch_size", &DataRecipe::batch_size)
        .min(1)
        .max(1000000000)
        .required()
        .doc("samples in a microbatch of one rank")
        .resume(resume::kBatch);
    s.key("shuffle", &DataRecipe::shuffle)
        .doc("draw a new order each epoch, if the data can be read by index; never for evaluation")
        .resume(resume::kDataOrder);
    s.key("loader_threads", &DataRecipe::loader_threads)
        .min(1)
        .max(1024)
        .doc("threads that read batches")
        .resume(resume::kFree);
    s.key("prefetch", &DataRecipe::prefetch)
        .min(1)
        .max(65536)
        .doc("batches to read ahead of the step; up to four times as many small ones")
        .resume(resume::kFree);
    s.choice("last", &DataRecipe::last, {{"short", LastBatch::kShort}, {"drop", LastBatch::kDrop}})
        .doc("last batch of an epoch: train on fewer samples, or drop an incomplete one")
        .resume(ChangeClass::kWarns, "the last step of an epoch differs");
    s.choice("on_change",
             &DataRecipe::on_change,
             {{"stop", OnDataChange::kStop}, {"continue", OnDataChange::kContinue}})
        .doc(
            "on a resume with other files of data or tokenizers than at the checkpoint: stop, or "
            "continue with a warning")
        .resume(resume::kFree);
    s.key("timeout_seconds", &DataRecipe::timeout_seconds)
        .above(0)
        .doc(
            "longest call into a dataset before the run fails, in seconds; null: no limit, for "
            "data that arrives late")
        .resume(resume::kFree);
    s.key("train", &DataRecipe::train).required().resume(resume::kDataOrder);
    s.key("eval", &DataRecipe::eval)
        .doc("dataset for evaluations, or an object of datasets by name")
        .resume(ChangeClass::kWarns,
                "metrics do not compare with earlier ones; refused with eval.with_window");
    s.key("test", &DataRecipe::test)
        .doc(
            "dataset to evaluate once, in full, at the end of the run; or an object of datasets by "
            "name")
        .resume(ChangeClass::kFree, "test sets are read at the end of the run only");
    s.key("skip_windows", &DataRecipe::skip_windows)
        .non_empty()
        .min(0)
        .doc(
            "windows of data.train to skip: ids, or label patterns with '*' (any text) and '?' "
            "(any character)")
        .resume(ChangeClass::kWarns, "later windows differ");
  }
};

// A computed column. The first step gets `from`, each later step the result of the previous step.
struct FeatureUse {
  std::string name;
  std::vector<std::string> from;    // columns of the batch, or features listed before this one
  std::vector<ComponentUse> steps;  // at least one

  template <class Section>
  static void bind(Section& s) {
    s.key("name", &FeatureUse::name)
        .max_length(100)
        .pattern("^[A-Za-z0-9_][A-Za-z0-9_-]*$")
        .required()
        .doc("column to add; NAME.0, NAME.1, ... if the last step returns several");
    s.key("from", &FeatureUse::from)
        .or_one()
        .min_items(1)
        .required()
        .doc("inputs of the first step: columns of the batch, or features listed before this one");
    s.key("do", &FeatureUse::steps)
        .component("feature")
        .min_items(1)
        .required()
        .doc("steps; each gets the result of the one before it");
  }
};

}  // namespace tenon
