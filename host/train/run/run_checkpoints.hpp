// SPDX-License-Identifier: Apache-2.0
//
// Where a run starts: its folder, new or existing, the storage of its checkpoints, and the
// checkpoint it resumes from, if any. Changes since that checkpoint are logged or refused here.
// Taking and loading states is the trainer's.
// Invariant: nobody else writes in the folder from make_folder() on, until `lock` is released.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/run_lock.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run/run_context.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class RunCheckpoints {
 public:
  // Both are borrowed and outlive it. `lock` receives the lock on the run folder.
  RunCheckpoints(const RunContext& context, std::optional<RunLock>& lock);

  // On rank 0: makes or reopens the folder, locks it, and lists the checkpoints to resume from.
  //
  // Errors  run.*, storage.io
  RunFolder make_folder();
  // On rank 0, after make_folder: the folder has checkpoints to resume from.
  bool has_some() const { return !to_try_.empty(); }

  // The candidates to resume from; null if the run starts over. Every rank, once.
  //
  // Errors  those of find_checkpoints; later, when they are tried: resume.recipe_changed, or the
  //         error of a plugin that differs too much
  ResumeCandidates* find(const RunFolder& folder);

  // The storage of the checkpoints of the run in this folder.
  const std::shared_ptr<CheckpointStore>& storage_at(const std::string& run_dir);

  // Metadata for the checkpoints of this run. Made once: it reads the bytes of all plugins.
  const CheckpointMetadata& metadata();

 private:
  std::string earlier_folder();
  void claim_folder(const std::string& path);
  void check_changes(const CheckpointReader& reader);
  void warn_of_missing_training(const CheckpointReader& reader, const std::string& path) const;
  // None: local files.
  const std::optional<ComponentUse>& storage_use() const;
  bool is_first() const { return context_.platform.is_first(); }

  const RunContext& context_;
  const Recipe& recipe_;
  const RunRequest& request_;
  World& world_;
  std::optional<RunLock>& lock_;
  std::vector<std::string> to_try_;  // on rank 0: checkpoints of the run folder, newest first
  std::shared_ptr<CheckpointStore> storage_;
  std::string storage_of_;  // the run folder of storage_
  std::optional<CheckpointMetadata> metadata_;
  std::optional<ResumeCandidates> saved_;
};

}  // namespace tenon
