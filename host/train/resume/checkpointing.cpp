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

CheckpointSaver::Options saver_options(
    const CheckpointRecipe& recipe, std::function<void(const std::string& checkpoint)> on_commit) {
  CheckpointSaver::Options options;
  options.retries = static_cast<int>(recipe.retries);
  options.on_commit = std::move(on_commit);
  return options;
}

}  // namespace

// ---- retention ----

CheckpointKeeper::CheckpointKeeper(const CheckpointRecipe& recipe,
                                   std::shared_ptr<CheckpointStore> storage,
                                   RunTest is_run)
    : rule_{.keep_last = recipe.keep_last,
            .keep_every_steps = recipe.keep_every_steps,
            .keep_best = recipe.keep_best.has_value() ? recipe.keep_best->count : 0,
            .best_mode = recipe.keep_best.has_value() && recipe.keep_best->is_max ? BestMode::kMax
                                                                                  : BestMode::kMin},
      metric_(recipe.keep_best.has_value() ? recipe.keep_best->metric : ""),
      storage_(std::move(storage)),
      is_run_(std::move(is_run)),
      known_("checkpoint", [this](const std::string& name) { return read(name); }) {}

// Returns none for a checkpoint that the run has not saved under this name.
std::optional<KeptCheckpoint> CheckpointKeeper::read(const std::string& checkpoint) const {
  const CheckpointMetadata metadata = CheckpointReader(storage_, checkpoint).index().metadata;
  if (!is_own_checkpoint(metadata, checkpoint, is_run_)) {
    return std::nullopt;
  }
  const auto record = storage_->commit_record(checkpoint);
  KeptCheckpoint result{.name = checkpoint,
                        .step = static_cast<int64_t>(metadata.step),
                        .time = metadata.time,
                        .is_order_known = !record.has_value() || record->has_checksum()};
  if (const auto metric = metadata.metrics.find(metric_);
      metric != metadata.metrics.end() && metadata.evaluated_step == metadata.step) {
    result.metric = metric->second;
  }
  return result;
}

void CheckpointKeeper::tidy(const std::string& checkpoint) {
  known_.forget(checkpoint);
  std::vector<KeptCheckpoint> kept = known_.list(*storage_);
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
  known_.remove(*storage_, checkpoints_to_remove(kept, rule_));
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
  std::vector<KeptCheckpoint> kept = known_.list(*storage_);
  sort_unknown_order(kept);
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
      kernels_(std::move(parts.kernels)),
      frozen_recipe_(std::move(parts.frozen_recipe)),
      has_windows_(parts.has_windows),
      is_run_(parts.is_run != nullptr
                  ? std::move(parts.is_run)
                  : [own = metadata_.run](const std::string& run) { return run == own; }),
      keeper_(recipe_, storage_, is_run_),
      excluded_(entries_of(metadata_.excluded)),
      on_commit_(std::move(parts.on_commit)),
      saver_(storage_, parts.ranks, saver_options(recipe_, [this](const std::string& checkpoint) {
               if (on_commit_ != nullptr) {
                 on_commit_(storage_->address(checkpoint));
               }
               keeper_.tidy(checkpoint);
             })) {}

void Checkpointing::add_export(std::unique_ptr<Export> one) {
  one->set_run(is_run_);
  exports_.push_back(std::move(one));
}

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

void Checkpointing::save(SavedPoint point, const SaveForms& forms, StateTree tree) {
  const RunState& state = point.state;
  CheckpointMetadata metadata = metadata_;
  metadata.kernels = kernels_ ? kernels_() : metadata.kernels;
  metadata.step = state.step;
  metadata.updates = state.updates;
  metadata.epochs = state.epochs;
  metadata.windows = state.windows;
  metadata.samples = state.samples;
  metadata.tokens = state.tokens;
  metadata.at = boundary_name(point.at);
  metadata.time = utc_time_text();
  metadata.evaluated_step = point.evaluated_step;
  metadata.metrics = std::move(point.metrics);
  const std::string name = name_of(state);
  const auto resolve = [this](CheckpointSaver& saver) {
    if (recipe_.staging == CheckpointStaging::kStream) {
      saver.finish();
    }
  };
  if (forms.is_full) {
    saved_ = name;
    CheckpointMetadata full = metadata;
    full.journal = point.taken;
    if (point.taken.has_value()) {
      taken_[name] = *point.taken;
    }
    saver_.begin(name, part_of(tree, excluded_), std::move(full), frozen_recipe_);
    saved_at_ = std::chrono::steady_clock::now();
    resolve(saver_);
  }
  for (Export* const one : forms.exports) {
    one->begin(name, tree, excluded_, metadata, frozen_recipe_);
    resolve(one->saver());
  }
}

LostSave Checkpointing::count_failure(SaveCount& count,
                                      const SaveResult& result,
                                      const std::string& what) {
  ++count.failed;
  const Error told = result.error->with_context(what);
  if (recipe_.on_failure == OnSaveFailure::kStop) {
    failure_ = told;
  } else {
    log_warning(told.what());
  }
  return {result.step, told.message(), told.id() == "checkpoint.given_up"};
}

std::optional<SaveCount> Checkpointing::export_count() const {
  if (exports_.empty()) {
    return std::nullopt;
  }
  SaveCount count = export_count_;
  for (const auto& one : exports_) {
    // A failure counts more than the end of the grace period.
    if (one->lost().has_value() && (!count.lost.has_value() || count.lost->is_cut_off)) {
      count.lost = one->lost();
    }
  }
  return count;
}

std::vector<EndedSave> Checkpointing::take_ended() {
  std::vector<EndedSave> ended;
  for (const SaveResult& result : saver_.take_results()) {
    if (result.error.has_value()) {
      count_.lost = count_failure(
          count_,
          result,
          "the checkpoint " + storage_->address(result.checkpoint) + " could not be saved");
    } else {
      count_.lost.reset();
      ++count_.committed;
      count_.last = result.address;
    }
    const auto taken = taken_.extract(result.checkpoint);
    ended.push_back({SaveEnded::Form::kCheckpoint,
                     result,
                     taken.empty() ? std::nullopt : std::optional(taken.mapped())});
  }
  for (const auto& one : exports_) {
    for (const SaveResult& result : one->saver().take_results()) {
      if (result.error.has_value()) {
        one->set_lost(
            count_failure(export_count_,
                          result,
                          "the export " + one->address(result.checkpoint) + " could not be made"));
      } else {
        one->set_lost(std::nullopt);
        ++export_count_.committed;
        export_count_.last = result.address;
      }
      ended.push_back({SaveEnded::Form::kExport, result, std::nullopt});
    }
  }
  return ended;
}

}  // namespace tenon
