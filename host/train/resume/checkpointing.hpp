// SPDX-License-Identifier: Apache-2.0
//
// Decides when a run saves its state, and which checkpoints it keeps. Sets the names and metadata
// of checkpoints and exports. CheckpointSaver writes the files.
// Invariant: decisions of all ranks depend only on state that the ranks share; clocks and signals
// are voted on.
// Threads: the train thread; old checkpoints are removed on the saver's thread.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/retention.hpp"
#include "host/journal/entries.hpp"
#include "host/journal/run_state.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/resume/kept_checkpoints.hpp"
#include "host/train/resume/own_checkpoint.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Removes the checkpoints that the recipe does not keep, after each commit. Lists the checkpoints
// that a run may roll back to.
class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointRecipe& recipe,
                   std::shared_ptr<CheckpointStore> storage,
                   RunTest is_run);
  // Removes checkpoints after the commit of `checkpoint`. Checkpoints that are unreadable, or that
  // the run has not saved under this name, are neither counted nor removed.
  void tidy(const std::string& checkpoint);

  // Excludes this checkpoint from removal.
  //
  // Threads  any
  void pin(const std::string& checkpoint);
  // Also keeps the newest checkpoint taken before this step. Each call replaces the step of the
  // last call; none ends the rule.
  //
  // Threads  any
  void pin_before(std::optional<uint64_t> step);

  // Returns the run's checkpoints taken before this step, newest first, except checkpoints of steps
  // that the run has rolled back. Must not be called during a save.
  std::vector<std::string> taken_before(uint64_t step);

 private:
  std::optional<KeptCheckpoint> read(const std::string& checkpoint) const;

  RetentionRule rule_;
  std::string metric_;  // of keep_best
  std::shared_ptr<CheckpointStore> storage_;
  RunTest is_run_;
  KeptCheckpoints known_;
  std::mutex mutex_;  // guards the members below
  std::set<std::string> pinned_;
  std::optional<uint64_t> pinned_before_;
};

// The forms in which one save writes a state.
struct SaveForms {
  bool is_full = false;  // a checkpoint
  std::vector<Export*> exports = {};
};

// The point of a run at which a state is saved.
struct SavedPoint {
  RunBoundary at = RunBoundary::kStep;
  const RunState& state;
  std::optional<uint64_t> evaluated_step = {};  // of the last evaluation
  std::map<std::string, double> metrics = {};   // last value of each metric
  std::optional<JournalNumber> taken = {};      // of its CheckpointTaken
};

// A save that was committed, or has failed.
struct EndedSave {
  SaveEnded::Form form = SaveEnded::Form::kCheckpoint;
  SaveResult result;
  std::optional<JournalNumber> taken = {};  // as in SavedPoint; none for exports
};

struct CheckpointingParts {
  const CheckpointRecipe& recipe;  // borrowed
  std::shared_ptr<CheckpointStore> storage;
  RankGroups& ranks;                 // borrowed
  CheckpointMetadata metadata = {};  // of the run; each save adds its own fields
  // The choices of kernels so far, for the metadata of a save. May be null.
  std::function<std::map<std::string, std::string>()> kernels = {};
  std::string frozen_recipe = {};
  bool has_windows = false;  // the training data has windows: names include them
  // Called on rank 0 with the address of each committed checkpoint, on the saver's thread, before
  // older checkpoints are removed. Must not throw.
  std::function<void(const std::string& address)> on_commit = {};
  // The names of the run. Empty: the name in `metadata`. Called on the saver's thread.
  RunTest is_run = {};
};

class Checkpointing {
 public:
  explicit Checkpointing(CheckpointingParts parts);
  // Adds a format. Call before the first save.
  void add_export(std::unique_ptr<Export> one);

  const CheckpointRecipe& recipe() const { return recipe_; }
  CheckpointKeeper& keeper() { return keeper_; }
  const std::shared_ptr<CheckpointStore>& storage() const { return storage_; }

  // Allocates memory for copies of a state like `tree`; see CheckpointSaver.
  void prepare(const StateTree& tree) { saver_.prepare(part_of(tree, excluded_)); }
  // As in CheckpointSaver, for checkpoints and exports together.
  bool is_writing() const;
  void conclude();
  // Waits for all saves in progress, and calls `limit` for the time limit of each wait. Returns the
  // first failure. Every rank calls it.
  std::optional<Error> finish(
      const std::function<std::optional<std::chrono::duration<double>>()>& limit);

  // True if the recipe schedules a save now: at the start, or by steps, windows or epochs.
  bool is_due(RunBoundary point, const RunState& state) const;
  // True if every_minutes have passed on this rank's clock since the last save, or since the start.
  bool is_clock_due() const;
  // True if the last save was of this state, which is then not saved again.
  bool is_saved(const RunState& state) const;
  // Call after rolling back to this state. The state may be saved again, but is not exported again.
  void forget_saved(const RunState& state);

  // Returns the exports of this state that are due by their schedules and not started yet.
  std::vector<Export*> exports_due(RunBoundary point, const RunState& state) const;
  // Returns the exports_due that do not exist, when the run resumes from this state. Every rank
  // calls it.
  std::vector<Export*> exports_missing(RunBoundary point, const RunState& state) const;
  // Returns the exports to make at the end of the run. `has_moved`: the run has trained since it
  // was loaded. `is_changed`: the parameters differ from this state's. Every rank calls it.
  std::vector<Export*> exports_at_end(const RunState& state, bool has_moved, bool is_changed) const;

  // Returns an empty tree that copies only the entries that `forms` need.
  StateTree tree_for(const SaveForms& forms) const;
  // Starts a save. With the staging `stream`, also finishes it.
  void save(SavedPoint point, const SaveForms& forms, StateTree tree);

  // Counts and returns the saves that ended since the last call. A failed save is logged as a
  // warning, or becomes failure().
  std::vector<EndedSave> take_ended();
  // The failed save that must stop the run; none if there is no such save. Rank 0 only.
  const std::optional<Error>& failure() const { return failure_; }
  // `lost` is the last save, if it failed. Complete on rank 0 only.
  const SaveCount& count() const { return count_; }
  // Returns none if the recipe has no exports. `lost` is the last export of a format, if it failed.
  std::optional<SaveCount> export_count() const;

 private:
  std::string name_of(const RunState& state) const { return checkpoint_name(state, has_windows_); }
  LostSave count_failure(SaveCount& count, const SaveResult& result, const std::string& what);

  const CheckpointRecipe& recipe_;
  std::shared_ptr<CheckpointStore> storage_;
  CheckpointMetadata metadata_;
  std::function<std::map<std::string, std::string>()> kernels_;
  std::string frozen_recipe_;
  bool has_windows_;
  RunTest is_run_;
  CheckpointKeeper keeper_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::optional<std::string> saved_;            // name of the last saved state
  std::map<std::string, JournalNumber> taken_;  // by name of a checkpoint that is being saved
  SaveCount count_;
  SaveCount export_count_;
  std::optional<Error> failure_;
  StateTree::NameTest excluded_;  // true for entries excluded from checkpoints
  std::function<void(const std::string& address)> on_commit_;
  CheckpointSaver saver_;  // destroyed before the keeper and on_commit_, which it calls
  std::vector<std::unique_ptr<Export>> exports_;
};

}  // namespace tenon
