// SPDX-License-Identifier: Apache-2.0
#include "host/train/checkpointing.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/distributed/failure_report.hpp"
#include "host/log/log.hpp"
#include "host/train/left_out.hpp"
#include "host/train/trainer.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace tenon {
namespace {

std::string size_text(uint64_t bytes) {
  char text[32];
  const auto size = static_cast<double>(bytes);
  if (bytes < (uint64_t{1} << 20)) {
    std::snprintf(text, sizeof(text), "%.1f KiB", size / (1 << 10));
  } else if (bytes < (uint64_t{1} << 30)) {
    std::snprintf(text, sizeof(text), "%.1f MiB", size / (1 << 20));
  } else {
    std::snprintf(text, sizeof(text), "%.2f GiB", size / (1 << 30));
  }
  return text;
}

CheckpointSaver::Options saver_options(const CheckpointRecipe& recipe, CheckpointKeeper& keeper) {
  CheckpointSaver::Options options;
  options.retries = static_cast<int>(recipe.retries);
  options.on_commit = [&keeper](const std::string& bundle) { keeper.tidy(bundle); };
  return options;
}

bool is_multiple(uint64_t value, int64_t of) {
  return of > 0 && value > 0 && value % static_cast<uint64_t>(of) == 0;
}

}  // namespace

const char* rest_name(RestPoint point) {
  switch (point) {
    case RestPoint::kStart:
      return "start";
    case RestPoint::kStep:
      return "step";
    case RestPoint::kWindow:
      return "window";
    case RestPoint::kEpoch:
      return "epoch";
  }
  return "";
}

std::string checkpoint_name(const RunState& state, bool has_windows) {
  char step[40];
  std::snprintf(step, sizeof(step), "step-%08llu", static_cast<unsigned long long>(state.step));
  std::string name = step;
  if (state.tokens > 0) {
    name += "_tokens-" + std::to_string(state.tokens);
  }
  name += "_epoch-" + std::to_string(state.epochs);
  if (has_windows) {
    name += "_window-" + std::to_string(state.windows);
  }
  return name;
}

// ---- which ones stay ----

CheckpointKeeper::CheckpointKeeper(const CheckpointRecipe& recipe,
                                   std::shared_ptr<BundleStorage> storage)
    : rule_{.keep_last = recipe.keep_last,
            .keep_every_steps = recipe.keep_every_steps,
            .keep_best = recipe.keep_best.has_value() ? recipe.keep_best->count : 0,
            .best_mode = recipe.keep_best.has_value() && recipe.keep_best->is_max ? BestMode::kMax
                                                                                  : BestMode::kMin},
      metric_(recipe.keep_best.has_value() ? recipe.keep_best->metric : ""),
      storage_(std::move(storage)) {}

KeptCheckpoint CheckpointKeeper::look_at(const std::string& bundle) const {
  const CheckpointFacts facts = CheckpointReader(storage_, bundle).index().facts;
  KeptCheckpoint result{.name = bundle, .step = static_cast<int64_t>(facts.step)};
  if (const auto figure = facts.figures.find(metric_);
      figure != facts.figures.end() && facts.evaluated_step == facts.step) {
    result.metric = figure->second;
  }
  return result;
}

// In the order of their commits, without those that cannot be read.
std::vector<KeptCheckpoint> CheckpointKeeper::look_at_all() {
  const std::vector<std::string> names = storage_->list();
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(names, entry.first) == names.end();
  });
  std::vector<KeptCheckpoint> kept;
  for (const std::string& name : names) {
    const auto [known, is_new] = known_.try_emplace(name);
    if (is_new) {
      try {
        known->second = look_at(name);
      } catch (const Error& error) {
        log_warning(std::string(error.what()) + "; it is left where it is, and not counted");
      }
    }
    if (known->second.has_value()) {
      kept.push_back(*known->second);
    }
  }
  return kept;
}

void CheckpointKeeper::tidy(const std::string& bundle) {
  known_.erase(bundle);
  std::vector<KeptCheckpoint> kept = look_at_all();
  {
    const std::lock_guard lock(mutex_);
    KeptCheckpoint* good = nullptr;
    for (KeptCheckpoint& one : kept) {
      one.is_pinned = pinned_.contains(one.name);
      if (pinned_before_.has_value() && static_cast<uint64_t>(one.step) < *pinned_before_) {
        good = &one;
      }
    }
    if (good != nullptr) {
      good->is_pinned = true;
    }
  }
  for (const std::string& name : checkpoints_to_remove(kept, rule_)) {
    storage_->remove(name);
    known_.erase(name);
  }
}

void CheckpointKeeper::pin(const std::string& bundle) {
  const std::lock_guard lock(mutex_);
  pinned_.insert(bundle);
}

void CheckpointKeeper::pin_before(std::optional<uint64_t> step) {
  const std::lock_guard lock(mutex_);
  pinned_before_ = step;
}

// Steps fall from one commit to the next where the run has gone back in between.
std::vector<std::string> CheckpointKeeper::taken_before(uint64_t step) {
  const std::vector<KeptCheckpoint> kept = look_at_all();
  std::vector<std::string> names;
  auto earliest = std::numeric_limits<int64_t>::max();
  for (size_t i = kept.size(); i-- > 0;) {
    if (kept[i].step > earliest) {
      continue;
    }
    earliest = kept[i].step;
    if (static_cast<uint64_t>(kept[i].step) < step) {
      names.push_back(kept[i].name);
    }
  }
  return names;
}

// ---- when, and what ----

Checkpointing::Checkpointing(const CheckpointRecipe& recipe,
                             std::shared_ptr<BundleStorage> storage,
                             Collective& collective,
                             WriterPlace place,
                             CheckpointFacts facts,
                             std::string frozen_recipe,
                             bool has_windows)
    : recipe_(recipe),
      storage_(std::move(storage)),
      facts_(std::move(facts)),
      frozen_recipe_(std::move(frozen_recipe)),
      has_windows_(has_windows),
      keeper_(recipe, storage_),
      left_out_(entries_of(facts_.left_out)),
      saver_(storage_, collective, place, saver_options(recipe, keeper_)) {}

bool Checkpointing::is_due(RestPoint point, const RunState& state) const {
  switch (point) {
    case RestPoint::kStart:
      return recipe_.at_start;
    case RestPoint::kStep:
      return is_multiple(state.step, recipe_.every_steps);
    case RestPoint::kWindow:
      return is_multiple(state.windows, recipe_.every_windows);
    case RestPoint::kEpoch:
      return is_multiple(state.epochs, recipe_.every_epochs);
  }
  return false;
}

bool Checkpointing::is_clock_due() const {
  return recipe_.every_minutes.has_value() &&
         std::chrono::steady_clock::now() - saved_at_ >=
             std::chrono::duration<double>(*recipe_.every_minutes * 60);
}

bool Checkpointing::is_saved(const RunState& state) const {
  return saved_ == name_of(state);
}

void Checkpointing::forget_saved(const RunState& state) {
  saved_.reset();
  for (const auto& one : exports_) {
    one->take_for_begun(name_of(state));
  }
}

std::vector<Export*> Checkpointing::exports_due(RestPoint point, const RunState& state) const {
  std::vector<Export*> due;
  for (const auto& one : exports_) {
    if (one->is_due(point, state) && !one->is_begun(name_of(state))) {
      due.push_back(one.get());
    }
  }
  return due;
}

std::vector<Export*> Checkpointing::exports_missing(RestPoint point, const RunState& state) const {
  std::vector<Export*> missing = exports_due(point, state);
  std::erase_if(missing, [&](const Export* one) { return one->is_there(name_of(state)); });
  return missing;
}

std::vector<Export*> Checkpointing::exports_at_end(const RunState& state,
                                                   bool has_moved,
                                                   bool is_changed) const {
  std::vector<Export*> wanted;
  for (const auto& one : exports_) {
    const std::string name = name_of(state);
    const auto is_made = [&] {
      return (one->is_begun(name) && !is_changed) || (!has_moved && one->is_there(name));
    };
    if (one->recipe().at_end && !is_made()) {
      wanted.push_back(one.get());
    }
  }
  return wanted;
}

bool Checkpointing::is_writing() const {
  return saver_.is_writing() ||
         std::ranges::any_of(exports_, [](const auto& one) { return one->saver().is_writing(); });
}

void Checkpointing::conclude() {
  saver_.conclude();
  for (const auto& one : exports_) {
    one->saver().conclude();
  }
}

std::optional<Error> Checkpointing::finish(
    const std::function<std::optional<std::chrono::duration<double>>()>& limit) {
  std::optional<Error> failure = saver_.finish(limit());
  for (const auto& one : exports_) {
    const auto of_export = one->saver().finish(limit());
    if (!failure.has_value()) {
      failure = of_export;
    }
  }
  return failure;
}

StateTree Checkpointing::tree_for(const SaveForms& forms) const {
  StateTree tree(recipe_.staging == CheckpointStaging::kStream ? StateTree::Copies::kNone
                                                               : StateTree::Copies::kOnHost);
  const bool is_whole = std::ranges::any_of(forms.exports, &Export::is_whole);
  const StateTree::NameTest left_out = is_whole ? StateTree::NameTest() : left_out_;
  if (forms.is_full) {
    tree.leave_out(left_out);
  } else {
    tree.leave_out([left_out](std::string_view name) {
      return is_no_weight(name) || (left_out && left_out(name));
    });
  }
  return tree;
}

void Checkpointing::save(RestPoint point,
                         const RunState& state,
                         std::optional<uint64_t> evaluated_step,
                         std::map<std::string, double> figures,
                         const SaveForms& forms,
                         StateTree tree) {
  CheckpointFacts facts = facts_;
  facts.step = state.step;
  facts.updates = state.updates;
  facts.epochs = state.epochs;
  facts.windows = state.windows;
  facts.samples = state.samples;
  facts.tokens = state.tokens;
  facts.at = rest_name(point);
  facts.time = utc_time_text();
  facts.evaluated_step = evaluated_step;
  facts.figures = std::move(figures);
  const std::string name = name_of(state);
  const auto settle = [this](CheckpointSaver& saver) {
    if (recipe_.staging == CheckpointStaging::kStream) {
      saver.finish();
    }
  };
  if (forms.is_full) {
    saved_ = name;
    saver_.begin(name, part_of(tree, left_out_), facts, frozen_recipe_);
    saved_at_ = std::chrono::steady_clock::now();
    settle(saver_);
  }
  for (Export* const one : forms.exports) {
    one->begin(name, tree, left_out_, facts, frozen_recipe_);
    settle(one->saver());
  }
}

void Checkpointing::count_failure(SaveCount& count, const Error& told) {
  ++count.failed;
  if (recipe_.on_failure == OnSaveFailure::kStop) {
    failure_ = told;
  } else {
    log_warning(told.what());
  }
}

std::optional<SaveCount> Checkpointing::export_count() const {
  return exports_.empty() ? std::nullopt : std::optional(export_count_);
}

std::vector<std::string> Checkpointing::take_lines() {
  std::vector<std::string> lines;
  const auto done = [&](const char* what, const SaveResult& result, SaveCount& count) {
    ++count.committed;
    count.last = result.address;
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.2g s", result.seconds);
    lines.push_back(std::string(what) + " " + result.address + " (" + size_text(result.bytes) +
                    ", " + seconds + ")");
  };
  for (const SaveResult& result : saver_.take_results()) {
    if (result.error.has_value()) {
      count_failure(
          count_,
          result.error->with_context("the checkpoint " + storage_->address(result.bundle) +
                                     " could not be saved"));
    } else {
      done("saved", result, count_);
    }
  }
  for (const auto& one : exports_) {
    for (const SaveResult& result : one->saver().take_results()) {
      if (result.error.has_value()) {
        count_failure(export_count_,
                      result.error->with_context("the export " + one->address(result.bundle) +
                                                 " could not be made"));
      } else {
        done("exported", result, export_count_);
      }
    }
  }
  return lines;
}

}  // namespace tenon
