// SPDX-License-Identifier: Apache-2.0
//
// When the state of a run is saved, what a checkpoint is called, what is said of it, and which ones
// stay. How it gets to a disk is CheckpointSaver's.
// Invariant: what all ranks must agree on depends on what they have in common; clocks and signals
// are votes.
// Threads: the train thread, but for what removes old checkpoints, which is on the saver's.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/retention.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/outcome.hpp"
#include "host/train/run_state.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class RestPoint;

// "step", "window", "epoch", "start".
const char* rest_name(RestPoint point);

// "step-00000500_tokens-64000_epoch-1_window-3"; tokens and windows where there are any.
std::string checkpoint_name(const RunState& state, bool has_windows);

// Removes checkpoints that the recipe does not keep, after each commit.
class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointRecipe& recipe, std::shared_ptr<BundleStorage> storage);
  // `bundle` was committed. Those that cannot be read are neither counted nor removed.
  void tidy(const std::string& bundle);

 private:
  KeptCheckpoint look_at(const std::string& bundle) const;

  RetentionRule rule_;
  std::string metric_;  // of keep_best
  std::shared_ptr<BundleStorage> storage_;
  std::map<std::string, std::optional<KeptCheckpoint>> known_;
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

  const CheckpointRecipe& recipe() const { return recipe_; }
  CheckpointSaver& saver() { return saver_; }

  // By what the recipe says of steps, windows and epochs.
  bool is_due(RestPoint point, const RunState& state) const;
  // By this rank's clock: every_minutes have passed since the last save, or the start.
  bool is_clock_due() const;
  // True where this very state was saved last: it is not saved twice.
  bool is_saved(const RunState& state) const;

  // Begins to save; with `stream` it is finished, too.  Errors  what `storage` cannot do is told by
  // take_failure
  void save(RestPoint point,
            const RunState& state,
            std::optional<uint64_t> evaluated_step,
            std::map<std::string, double> figures,
            StateTree tree);

  // What came of saves, one line each, for people; counts them.
  std::vector<std::string> take_lines();
  // On rank 0: why the run is to stop, where it is to.
  const std::optional<Error>& failure() const { return failure_; }
  const SaveCount& count() const { return count_; }

 private:
  const CheckpointRecipe& recipe_;
  std::shared_ptr<BundleStorage> storage_;
  CheckpointFacts facts_;
  std::string frozen_recipe_;
  bool has_windows_;
  CheckpointKeeper keeper_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::optional<std::string> saved_;  // its name
  SaveCount count_;
  std::optional<Error> failure_;
  CheckpointSaver saver_;  // goes first: it calls the keeper
};

}  // namespace tenon
