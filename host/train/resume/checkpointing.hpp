// SPDX-License-Identifier: Apache-2.0
//
// When a run saves its state, the names and metadata of its checkpoints, which of them it keeps,
// and the exports beside them. CheckpointSaver writes them.
// Invariant: what all ranks must agree on depends on state that they share; clocks and signals are
// votes.
// Threads: the train thread; old checkpoints are removed on the saver's thread.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/retention.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/resume/exports.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/run_state/run_state.hpp"

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

// "step-00000500_tokens-64000_epoch-1_window-3"; without tokens or windows if there are none.
std::string checkpoint_name(const RunState& state, bool has_windows);

// Removes the checkpoints that the recipe does not keep, after each commit. Lists those that a run
// may roll back to.
class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointRecipe& recipe, std::shared_ptr<CheckpointStore> storage);
  // After the commit of `bundle`. Checkpoints that cannot be read are neither counted nor removed.
  void tidy(const std::string& checkpoint);

  // Keeps this checkpoint for good.
  //
  // Threads  any
  void pin(const std::string& checkpoint);
  // Keeps the newest checkpoint taken before this step, until another step is given, or none.
  //
  // Threads  any
  void pin_before(std::optional<uint64_t> step);

  // The checkpoints taken before this step, newest first, without those of steps that the run has
  // rolled back. Only while nothing is being saved.
  std::vector<std::string> taken_before(uint64_t step);

 private:
  KeptCheckpoint look_at(const std::string& checkpoint) const;
  std::vector<KeptCheckpoint> look_at_all();

  RetentionRule rule_;
  std::string metric_;  // of keep_best
  std::shared_ptr<CheckpointStore> storage_;
  std::map<std::string, std::optional<KeptCheckpoint>> known_;
  std::mutex mutex_;  // over what follows
  std::set<std::string> pinned_;
  std::optional<uint64_t> pinned_before_;
};

// What one save writes of a state.
struct SaveForms {
  bool is_full = false;  // a checkpoint
  std::vector<Export*> exports = {};
};

struct CheckpointingParts {
  const CheckpointRecipe& recipe;  // borrowed
  std::shared_ptr<CheckpointStore> storage;
  Collective& collective;  // borrowed
  WriterPlace place = {};
  CheckpointMetadata metadata = {};  // of the run; each save fills in what changes
  std::string frozen_recipe = {};
  bool has_windows = false;  // of the training data: they are part of the names
};

class Checkpointing {
 public:
  explicit Checkpointing(CheckpointingParts parts);
  // Before the first save.
  void add_export(std::unique_ptr<Export> one) { exports_.push_back(std::move(one)); }

  const CheckpointRecipe& recipe() const { return recipe_; }
  CheckpointKeeper& keeper() { return keeper_; }
  const std::shared_ptr<CheckpointStore>& storage() const { return storage_; }

  // Reserves memory for copies of such a state; see CheckpointSaver.
  void prepare(const StateTree& tree) { saver_.prepare(part_of(tree, excluded_)); }
  // As of CheckpointSaver, for checkpoints and exports together.
  bool is_writing() const;
  void conclude();
  // On every rank: waits for all saves under way; asks for `limit` before each wait. Returns the
  // first failure.
  std::optional<Error> finish(
      const std::function<std::optional<std::chrono::duration<double>>()>& limit);

  // True if the recipe's steps, windows or epochs ask for a save now.
  bool is_due(RunBoundary point, const RunState& state) const;
  // True if every_minutes have passed on this rank's clock since the last save, or the start.
  bool is_clock_due() const;
  // True if this state was saved last: it is not saved twice.
  bool is_saved(const RunState& state) const;
  // After a roll-back to this state: it is to be saved again, and needs no second export.
  void forget_saved(const RunState& state);

  // Exports of this state that are due by their schedules and not made yet.
  std::vector<Export*> exports_due(RunBoundary point, const RunState& state) const;
  // On every rank: those of them that do not exist, when the run resumes from this state.
  std::vector<Export*> exports_missing(RunBoundary point, const RunState& state) const;
  // On every rank: exports of what the run ended with. `has_moved`: the run has trained since it
  // was loaded. `is_changed`: the parameters are not those of this state.
  std::vector<Export*> exports_at_end(const RunState& state, bool has_moved, bool is_changed) const;

  // A tree that copies only what `forms` take of the state.
  StateTree tree_for(const SaveForms& forms) const;
  // Starts a save; with the staging `stream` it also finishes it.
  void save(RunBoundary point,
            const RunState& state,
            std::optional<uint64_t> evaluated_step,
            std::map<std::string, double> metrics,
            const SaveForms& forms,
            StateTree tree);

  // The finished saves since the last call, one line each for people. Counts them.
  std::vector<std::string> take_lines();
  // On rank 0: why the run must stop; none if it need not.
  const std::optional<Error>& failure() const { return failure_; }
  const SaveCount& count() const { return count_; }
  // None if the recipe asks for no exports.
  std::optional<SaveCount> export_count() const;

 private:
  std::string name_of(const RunState& state) const { return checkpoint_name(state, has_windows_); }
  void count_failure(SaveCount& count, const Error& told);

  const CheckpointRecipe& recipe_;
  std::shared_ptr<CheckpointStore> storage_;
  CheckpointMetadata metadata_;
  std::string frozen_recipe_;
  bool has_windows_;
  CheckpointKeeper keeper_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::optional<std::string> saved_;  // its name
  SaveCount count_;
  SaveCount export_count_;
  std::optional<Error> failure_;
  StateTree::NameTest excluded_;  // of the entries that checkpoints are without
  CheckpointSaver saver_;         // goes before the keeper, which it calls
  std::vector<std::unique_ptr<Export>> exports_;
};

}  // namespace tenon
