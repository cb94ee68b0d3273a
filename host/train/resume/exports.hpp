// SPDX-License-Identifier: Apache-2.0
//
// Exports the parameters of a run in other formats, beside its checkpoints. Each format has its own
// schedule and its own folder ("exports/weights", "exports/hf"). All ranks write their shares while
// the run continues, as for a checkpoint. For a format of other programs, rank 0 then makes the
// files from the shares, one tensor at a time, on its saver's thread.
// Invariant: an export is listed only after it is complete.
// Threads: the train thread; files are made and removed on the saver's thread.
#pragma once

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/retention.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/journal/run_state.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/resume/kept_checkpoints.hpp"
#include "host/train/resume/own_checkpoint.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_boundary.hpp"
#include "host/train/weights/layout_map.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

// Returns "weights" or "hf": the name of the folder below "exports", and of the layout.
const char* export_name(ExportFormat format);

// True for entries of a run's state that exports exclude: all but parameters, buffers, and rows of
// tables without optimizer state. A StateTree::NameTest.
bool is_no_weight(std::string_view name);

class Export {
 public:
  // The storages of an export. Ranks write to `shares` if rank 0 makes the files of a layout from
  // their shares. `shares` is null if the ranks write the export itself.
  struct Storages {
    std::shared_ptr<CheckpointStore> made;
    std::shared_ptr<CheckpointStore> shares;
  };

  // `layout` is set if the format has a layout. Rank 0 removes shares that an earlier run left.
  Export(const ExportRecipe& recipe,
         Storages storages,
         RankGroups& ranks,
         int retries,
         std::optional<LayoutMap> layout);

  // The names of the run: keep_last counts and removes only exports of the run. Without it, exports
  // of any run. Call before the first export.
  void set_run(RunTest is_run) { is_run_ = std::move(is_run); }

  const ExportRecipe& recipe() const { return recipe_; }
  // True if the export has all parameters, even parameters excluded from checkpoints.
  bool is_whole() const { return layout_.has_value(); }
  std::string address(const std::string& name) const { return storages_.made->address(name); }
  CheckpointSaver& saver() { return saver_; }

  // True if the schedule requires an export now. The caller handles the end of the run.
  bool is_due(RunBoundary point, const RunState& state) const;
  // True if the last export that this run started has that name.
  bool is_begun(const std::string& name) const { return begun_ == name; }
  // The last export, if it failed; none if it succeeded. Rank 0 only.
  const std::optional<LostSave>& lost() const { return lost_; }
  void set_lost(std::optional<LostSave> lost) { lost_ = std::move(lost); }
  // Treats the export of that name as started, and all others as not started.
  void take_for_begun(const std::string& name) { begun_ = name; }
  // True if an export of that name exists, from this run or an earlier one. Every rank calls it.
  bool is_there(const std::string& name) const;

  // Starts an export. `tree` has at least the entries that exports need. Every rank calls it.
  void begin(const std::string& name,
             const StateTree& tree,
             const StateTree::NameTest& excluded,
             CheckpointMetadata metadata,
             const std::string& frozen_recipe);

 private:
  std::string make_files(const std::string& checkpoint, const std::atomic<bool>& give_up);
  std::optional<KeptCheckpoint> read(const std::string& name) const;
  void tidy();

  const ExportRecipe& recipe_;
  Storages storages_;
  RankGroups& ranks_;
  std::optional<LayoutMap> layout_;
  std::string begun_;
  std::optional<LostSave> lost_;
  RunTest is_run_ = [](const std::string&) { return true; };
  KeptCheckpoints known_{"export", [this](const std::string& name) { return read(name); }};
  CheckpointSaver saver_;  // destroyed first: its thread uses the other members
};

// Returns a tree without the excluded entries. Tensors are shared, not copied.
StateTree part_of(const StateTree& tree, const StateTree::NameTest& excluded);

}  // namespace tenon
