// SPDX-License-Identifier: Apache-2.0
//
// When the state of a run is saved, what a checkpoint is called, what is said of it, and which ones
// stay; and the exports beside it. How it gets to a disk is CheckpointSaver's.
// Invariant: what all ranks must agree on depends on what they have in common; clocks and signals
// are votes.
// Threads: the train thread, but for what removes old checkpoints, which is on the saver's.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/retention.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/exports.hpp"
#include "host/train/outcome.hpp"
#include "host/train/run_state.hpp"

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

enum class RestPoint;

// "step", "window", "epoch", "start".
const char* rest_name(RestPoint point);

// "step-00000500_tokens-64000_epoch-1_window-3"; tokens and windows where there are any.
std::string checkpoint_name(const RunState& state, bool has_windows);

// Removes checkpoints that the recipe does not keep, after each commit; and knows which ones a run
// that went wrong may go back to.
class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointRecipe& recipe, std::shared_ptr<BundleStorage> storage);
  // `bundle` was committed. Those that cannot be read are neither counted nor removed.
  void tidy(const std::string& bundle);

  // This one stays for good.  Threads  any
  void pin(const std::string& bundle);
  // The newest one that was taken before this step stays, until another step is given, or none.
  // Threads  any
  void pin_before(std::optional<uint64_t> step);

  // Those of the run as it is that were taken before this step, the newest first: not those of
  // steps that it has gone back from. Where nothing is being saved.
  std::vector<std::string> taken_before(uint64_t step);

 private:
  KeptCheckpoint look_at(const std::string& bundle) const;
  std::vector<KeptCheckpoint> look_at_all();

  RetentionRule rule_;
  std::string metric_;  // of keep_best
  std::shared_ptr<BundleStorage> storage_;
  std::map<std::string, std::optional<KeptCheckpoint>> known_;
  std::mutex mutex_;  // over what follows
  std::set<std::string> pinned_;
  std::optional<uint64_t> pinned_before_;
};

// In which forms a state is saved at once.
struct SaveForms {
  bool is_full = false;  // a checkpoint
  std::vector<Export*> exports = {};
};

class Checkpointing {
 public:
  // `facts` are those of the run; what changes is filled in at each save.
  Checkpointing(const CheckpointRecipe& recipe,
                std::shared_ptr<BundleStorage> storage,
                Collective& collective,
                WriterPlace place,
                CheckpointFacts facts,
                std::string frozen_recipe,
                bool has_windows);
  // Before anything is saved.
  void add_export(std::unique_ptr<Export> one) { exports_.push_back(std::move(one)); }

  const CheckpointRecipe& recipe() const { return recipe_; }
  CheckpointKeeper& keeper() { return keeper_; }
  const std::shared_ptr<BundleStorage>& storage() const { return storage_; }

  // Memory for copies of such a state; see CheckpointSaver.
  void prepare(const StateTree& tree) { saver_.prepare(part_of(tree, left_out_)); }
  // What is said of CheckpointSaver, of all that are at work.
  bool is_writing() const;
  void conclude();
  // Every rank: waits for all that is under way; `limit` is asked before each wait. Returns what
  // has gone wrong first.
  std::optional<Error> finish(
      const std::function<std::optional<std::chrono::duration<double>>()>& limit);

  // By what the recipe says of steps, windows and epochs.
  bool is_due(RestPoint point, const RunState& state) const;
  // By this rank's clock: every_minutes have passed since the last save, or the start.
  bool is_clock_due() const;
  // True where this very state was saved last: it is not saved twice.
  bool is_saved(const RunState& state) const;
  // The run has gone back to this state: it is to be saved, and was exported when it was there
  // first.
  void forget_saved(const RunState& state);

  // Exports that are due by their schedules and not made yet, after this very state.
  std::vector<Export*> exports_due(RestPoint point, const RunState& state) const;
  // Every rank: those of them that are not there, where the run goes on from this state.
  std::vector<Export*> exports_missing(RestPoint point, const RunState& state) const;
  // Every rank: those that are made of what the run has ended with. `has_moved`: the run has gone
  // on since it was loaded; `is_changed`: parameters are not those that this state had.
  std::vector<Export*> exports_at_end(const RunState& state, bool has_moved, bool is_changed) const;

  // A tree for what `forms` take of the state: nothing else is copied into it.
  StateTree tree_for(const SaveForms& forms) const;
  // Begins to save; with `stream` it is finished, too.
  void save(RestPoint point,
            const RunState& state,
            std::optional<uint64_t> evaluated_step,
            std::map<std::string, double> figures,
            const SaveForms& forms,
            StateTree tree);

  // What came of saves, one line each, for people; counts them.
  std::vector<std::string> take_lines();
  // On rank 0: why the run is to stop, where it is to.
  const std::optional<Error>& failure() const { return failure_; }
  const SaveCount& count() const { return count_; }
  // None where the recipe asks for none.
  std::optional<SaveCount> export_count() const;

 private:
  std::string name_of(const RunState& state) const { return checkpoint_name(state, has_windows_); }
  void count_failure(SaveCount& count, const Error& told);

  const CheckpointRecipe& recipe_;
  std::shared_ptr<BundleStorage> storage_;
  CheckpointFacts facts_;
  std::string frozen_recipe_;
  bool has_windows_;
  CheckpointKeeper keeper_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::optional<std::string> saved_;  // its name
  SaveCount count_;
  SaveCount export_count_;
  std::optional<Error> failure_;
  StateTree::NameTest left_out_;  // of the entries that checkpoints are without
  CheckpointSaver saver_;         // goes before the keeper, which it calls
  std::vector<std::unique_ptr<Export>> exports_;
};

}  // namespace tenon
