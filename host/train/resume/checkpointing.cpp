// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/checkpointing.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/distributed/failures/failure_report.hpp"
#include "host/log/log.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"
#include "host/train/resume/excluded.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace tenon {
namespace {

CheckpointSaver::Options saver_options(const CheckpointRecipe& recipe, CheckpointKeeper& keeper) {
  CheckpointSaver::Options options;
  options.retries = static_cast<int>(recipe.retries);
  options.on_commit = [&keeper](const std::string& checkpoint) { keeper.tidy(checkpoint); };
  return options;
}

}  // namespace

std::string checkpoint_name(const RunState& state, bool has_windows) {
  char step[40];
  std::snprintf(step, sizeof(step), "step-%08llu", static_cast<unsigned long long>(state.step));
  std::string name = step;
  if (state.tokens > 0) {
    name += formatted("_tokens-{}", state.tokens);
  }
  name += formatted("_epoch-{}", state.epochs);
  if (has_windows) {
    name += formatted("_window-{}", state.windows);
  }
  return name;
}

// ---- retention ----

CheckpointKeeper::CheckpointKeeper(const CheckpointRecipe& recipe,
                                   std::shared_ptr<CheckpointStore> storage)
    : rule_{.keep_last = recipe.keep_last,
            .keep_every_steps = recipe.keep_every_steps,
            .keep_best = recipe.keep_best.has_value() ? recipe.keep_best->count : 0,
            .best_mode = recipe.keep_best.has_value() && recipe.keep_best->is_max ? BestMode::kMax
                                                                                  : BestMode::kMin},
      metric_(recipe.keep_best.has_value() ? recipe.keep_best->metric : ""),
      storage_(std::move(storage)) {}

KeptCheckpoint CheckpointKeeper::look_at(const std::string& checkpoint) const {
  const CheckpointMetadata metadata = CheckpointReader(storage_, checkpoint).index().metadata;
  KeptCheckpoint result{.name = checkpoint, .step = static_cast<int64_t>(metadata.step)};
  if (const auto metric = metadata.metrics.find(metric_);
      metric != metadata.metrics.end() && metadata.evaluated_step == metadata.step) {
    result.metric = metric->second;
  }
  return result;
}

// Returns the checkpoints in the order of their commits, without unreadable ones.
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
        log_warning(std::string(error.what()) + "; this checkpoint is neither counted nor removed");
      }
    }
    if (known->second.has_value()) {
      kept.push_back(*known->second);
    }
  }
  return kept;
}

void CheckpointKeeper::tidy(const std::string& checkpoint) {
  known_.erase(checkpoint);
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

void CheckpointKeeper::pin(const std::string& checkpoint) {
  const std::lock_guard lock(mutex_);
  pinned_.insert(checkpoint);
}

void CheckpointKeeper::pin_before(std::optional<uint64_t> step) {
  const std::lock_guard lock(mutex_);
  pinned_before_ = step;
}

// Steps decrease from one commit to the next if the run rolled back in between.
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

// ---- schedules and saves ----

Checkpointing::Checkpointing(CheckpointingParts parts)
    : recipe_(parts.recipe),
      storage_(std::move(parts.storage)),
      metadata_(std::move(parts.metadata)),
      frozen_recipe_(std::move(parts.frozen_recipe)),
      has_windows_(parts.has_windows),
      keeper_(recipe_, storage_),
      excluded_(entries_of(metadata_.excluded)),
      saver_(storage_, parts.collective, parts.place, saver_options(recipe_, keeper_)) {}

bool Checkpointing::is_due(RunBoundary boundary, const RunState& state) const {
  switch (boundary) {
    case RunBoundary::kStart:
      return recipe_.at_start;
    case RunBoundary::kStep:
      return recipe_.every.is_due(ScheduleUnit::kStep, state.step);
    case RunBoundary::kWindow:
      return recipe_.every.is_due(ScheduleUnit::kWindow, state.windows);
    case RunBoundary::kEpoch:
      return recipe_.every.is_due(ScheduleUnit::kEpoch, state.epochs);
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

std::vector<Export*> Checkpointing::exports_due(RunBoundary boundary, const RunState& state) const {
  std::vector<Export*> due;
  for (const auto& one : exports_) {
    if (one->is_due(boundary, state) && !one->is_begun(name_of(state))) {
      due.push_back(one.get());
    }
  }
  return due;
}

std::vector<Export*> Checkpointing::exports_missing(RunBoundary boundary,
                                                    const RunState& state) const {
  std::vector<Export*> missing = exports_due(boundary, state);
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
  const StateTree::NameTest excluded = is_whole ? StateTree::NameTest() : excluded_;
  if (forms.is_full) {
    tree.leave_out(excluded);
  } else {
    tree.leave_out([excluded](std::string_view name) {
      return is_no_weight(name) || (excluded && excluded(name));
    });
  }
  return tree;
}

void Checkpointing::save(RunBoundary boundary,
                         const RunState& state,
                         std::optional<uint64_t> evaluated_step,
                         std::map<std::string, double> metrics,
                         const SaveForms& forms,
                         StateTree tree) {
  CheckpointMetadata metadata = metadata_;
  metadata.step = state.step;
  metadata.updates = state.updates;
  metadata.epochs = state.epochs;
  metadata.windows = state.windows;
  metadata.samples = state.samples;
  metadata.tokens = state.tokens;
  metadata.at = boundary_name(boundary);
  metadata.time = utc_time_text();
  metadata.evaluated_step = evaluated_step;
  metadata.metrics = std::move(metrics);
  const std::string name = name_of(state);
  const auto resolve = [this](CheckpointSaver& saver) {
    if (recipe_.staging == CheckpointStaging::kStream) {
      saver.finish();
    }
  };
  if (forms.is_full) {
    saved_ = name;
    saver_.begin(name, part_of(tree, excluded_), metadata, frozen_recipe_);
    saved_at_ = std::chrono::steady_clock::now();
    resolve(saver_);
  }
  for (Export* const one : forms.exports) {
    one->begin(name, tree, excluded_, metadata, frozen_recipe_);
    resolve(one->saver());
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
    lines.push_back(std::string(what) + " " + result.address + " (" + byte_size(result.bytes) +
                    ", " + seconds + ")");
  };
  for (const SaveResult& result : saver_.take_results()) {
    if (result.error.has_value()) {
      lost_ = result.error->with_context("the checkpoint " + storage_->address(result.checkpoint) +
                                         " could not be saved");
      count_failure(count_, *lost_);
    } else {
      lost_.reset();
      done("saved", result, count_);
    }
  }
  for (const auto& one : exports_) {
    for (const SaveResult& result : one->saver().take_results()) {
      if (result.error.has_value()) {
        lost_export_ = result.error->with_context("the export " + one->address(result.checkpoint) +
                                                  " could not be made");
        count_failure(export_count_, *lost_export_);
      } else {
        lost_export_.reset();
        done("exported", result, export_count_);
      }
    }
  }
  return lines;
}

}  // namespace tenon
