// SPDX-License-Identifier: Apache-2.0
//
// Where a run starts: its folder, new or existing, the storage of its checkpoints, and the
// checkpoint it resumes from, if any. Changes since that checkpoint are logged or refused here.
// The trainer takes and loads states.
// Invariant: no other process writes to the folder from make_folder() until `lock` is released.
// Threads: [main].
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/run_lock.hpp"
#include "host/metrics/run_folder.hpp"
#include "host/recipe/recipe_difference.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/resume/run_beginning.hpp"
#include "host/train/run/run_context.hpp"

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class RunCheckpoints {
 public:
  // Both are borrowed and outlive it. `lock` receives the lock on the run folder.
  RunCheckpoints(const RunContext& context, std::optional<RunLock>& lock);

  // Makes or reopens the folder, locks it, and lists the checkpoints to resume from. If the run
  // starts over in the folder of a lost attempt, moves that attempt's files to attempt-N in it, and
  // begins with what that attempt began with. Rank 0 only.
  //
  // Errors  run.*, storage.io; resume.checkpoints_gone if the folder records a checkpoint, but the
  //         storage has none; run.import_lost if the attempt was an import
  RunFolder make_folder();
  // Records in the folder what this run begins with. Rank 0 only, after make_folder, before
  // recipe.json is written.
  // Errors  run.dir_unwritable
  void write_beginning(const RunFolder& folder) const;
  // Returns the folder to import table rows from; "" for none. After find().
  const std::string& tables_from() const { return beginning_.tables_from; }
  // True if the folder has checkpoints to resume from. Rank 0 only, after make_folder.
  bool has_some() const { return !to_try_.empty(); }

  // Returns the candidates to resume from; null if the run starts over. Every rank calls it once.
  //
  // Errors  those of find_checkpoints; later, when a candidate is tried: resume.only_weights,
  //         resume.recipe_changed, data.changed, or the error of a plugin that differs too much
  ResumeCandidates* find(const RunFolder& folder);

  // Returns the checkpoint storage of the run in this folder.
  const std::shared_ptr<CheckpointStore>& storage_at(const std::string& run_dir);

  // Sets the records of the files that this run reads. Without them, a resume does not compare any.
  // Call before find() and metadata().
  void use_sources(std::vector<SourceRecord> sources) { sources_ = std::move(sources); }

  // True for the name of the run, and for the name it had in the checkpoint of its folder that it
  // resumed from.
  bool is_run(const std::string& name) const;

  // Returns the metadata for checkpoints of this run. Computed once, because it hashes all plugin
  // files.
  const CheckpointMetadata& metadata();

 private:
  std::string earlier_folder();
  void claim_folder(const std::string& path);
  bool has_checkpoints(const std::string& run_dir);
  bool has_attempt(const std::string& path, bool is_restart) const;
  void choose_beginning(const std::string& path);
  RunFolder resume_in(const std::string& path, const RunFolder::Claim& claim);
  RunFolder start_over_in(const std::string& path, bool is_restart);
  void check_changes(const CheckpointReader& reader);
  void check_sources(const CheckpointReader& reader, std::span<const RecipeChange> changes) const;
  void warn_of_missing_training(const CheckpointReader& reader, const std::string& path) const;
  // Returns none for local files.
  const std::optional<ComponentUse>& storage_use() const;
  bool is_first() const { return context_.platform.is_first(); }

  const RunContext& context_;
  const Recipe& recipe_;
  const RunRequest& request_;
  World& world_;
  RankGroups& ranks_;
  std::optional<RunLock>& lock_;
  std::vector<std::string> to_try_;  // on rank 0: checkpoints of the run folder, newest first
  RunBeginning beginning_;           // of this start; on other ranks than 0, after find()
  RunBeginning recorded_;            // on rank 0: that of the attempt in the folder
  std::set<std::string> earlier_names_;
  std::shared_ptr<CheckpointStore> storage_;
  std::string storage_of_;  // the run folder of storage_
  std::optional<std::vector<SourceRecord>> sources_;
  std::optional<CheckpointMetadata> metadata_;
  std::optional<ResumeCandidates> saved_;
};

}  // namespace tenon
