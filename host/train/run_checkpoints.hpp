// SPDX-License-Identifier: Apache-2.0
//
// Where a run begins: its folder, anew or again, the storage of its checkpoints, and which one the
// run goes on from, if any. What has changed since that one is told or refused here. Taking and
// loading states is the trainer's.
// Invariant: nobody else writes in the folder from make_folder() on, until `lock` is gone.
// Threads: [main].
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/run_lock.hpp"
#include "host/distributed/mesh.hpp"
#include "host/distributed/world.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/component_factory.hpp"
#include "host/train/saved_states.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct RunRequest;

class RunCheckpoints {
 public:
  // All are borrowed, and outlive it. `device` is the name that facts of the run give.
  RunCheckpoints(const Recipe& recipe,
                 const RunRequest& request,
                 const Mesh& mesh,
                 std::string device,
                 World& world,
                 ComponentFactory& factory,
                 std::optional<RunLock>& lock);

  // On rank 0: the folder, locked, and which of its checkpoints the run may go on from.
  // Errors  run.*, storage.io
  RunFolder make_folder();
  // On rank 0, after make_folder: the folder has checkpoints to go on from.
  bool has_some() const { return !to_try_.empty(); }

  // What the run goes on from; null if nothing. Every rank, once.
  // Errors  those of find_checkpoints; later, when they are tried: resume.recipe_changed, or that
  // of
  //         a plugin that is too different
  SavedStates* find(const RunFolder& folder);

  // Where the checkpoints of the run in this folder are kept.
  const std::shared_ptr<BundleStorage>& storage_at(const std::string& run_dir);

  // Those of the run. Made once: it takes the bytes of all plugins.
  const CheckpointFacts& facts();

 private:
  std::string earlier_folder();
  void claim_folder(const std::string& path);
  void check_changes(const CheckpointReader& reader);
  // None for local files.
  const std::optional<ComponentUse>& storage_use() const;
  bool is_first() const { return mesh_.rank() == 0; }

  const Recipe& recipe_;
  const RunRequest& request_;
  const Mesh& mesh_;
  const std::string device_;
  World& world_;
  ComponentFactory& factory_;
  std::optional<RunLock>& lock_;
  std::vector<std::string> to_try_;  // on rank 0: checkpoints of the run's folder, the newest first
  std::shared_ptr<BundleStorage> storage_;
  std::string storage_of_;  // the run folder that it is of
  std::optional<CheckpointFacts> facts_;
  std::optional<SavedStates> saved_;
};

}  // namespace tenon
