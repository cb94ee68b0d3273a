// SPDX-License-Identifier: Apache-2.0
//
// Saves checkpoints during the run. Each rank writes its share on a background thread. When all
// shares are written, rank 0 writes the index and commits, also on its background thread. At most
// one save is in progress. A failed save is retried, then reported; it never leaves a partial
// checkpoint.
// Invariant: all ranks agree on which save is open.
// Threads: the train thread, except functions documented otherwise.
#pragma once

#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/distributed/collectives/task_thread.hpp"
#include "host/error/error.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tenon {

// Result of a save, on rank 0.
struct SaveResult {
  std::string checkpoint;
  std::string address = {};         // of the result; "" if there is none
  std::optional<Error> error = {};  // null: the checkpoint is committed
  uint64_t bytes = 0;               // of the tensors of all ranks
  double seconds = 0;               // since begin()
  uint64_t step = 0;
};

// Opens a checkpoint for its first writer, as NAME, or as NAME_2, NAME_3, ... if a checkpoint has
// the name, or a folder of the user. Returns the name.
// Errors  those of CheckpointStore::open
std::string open_free_name(CheckpointStore& storage, const std::string& name);

class CheckpointSaver {
 public:
  struct Options {
    int retries = 2;                       // after the first attempt
    std::chrono::milliseconds pause{200};  // before the first retry; doubles with each retry
    // Called on the writing thread of rank 0 after each commit, to remove old checkpoints. Its
    // exceptions are logged as warnings.
    std::function<void(const std::string& checkpoint)> on_commit = {};
    // If set, makes something else, such as an export, of the committed checkpoint, and returns its
    // address. Runs on the same thread; the checkpoint is removed afterwards. An exception fails
    // the save; storage.io is retried first.
    std::function<std::string(const std::string& checkpoint, const std::atomic<bool>& give_up)>
        make = {};
  };

  CheckpointSaver(std::shared_ptr<CheckpointStore> storage, RankGroups& ranks, Options options);
  // Cancels a save in progress. Its checkpoint is not committed unless the commit is already
  // running.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Allocates memory for copies of such a state in the background, so that the first save does not
  // wait for it.
  void prepare(const StateTree& tree);
  // Starts to write a state, after the save in progress has finished. Every rank calls it, with its
  // own tree; all other arguments are equal. `name` is the name of the checkpoint; if it is taken,
  // a number is appended.
  void begin(const std::string& name,
             StateTree tree,
             CheckpointMetadata metadata,
             const std::string& frozen_recipe);
  // True while this rank's share is being written.
  bool is_writing() const { return is_writing_; }
  // True after begin(), until conclude().
  bool is_open() const { return is_open_; }
  // Sends the shares to rank 0, which commits. Every rank calls it, when no rank is writing.
  void conclude();
  // Waits for the save in progress. Every rank calls it. Returns the error of a failed save on all
  // ranks. A save that takes longer than `limit` is canceled.
  std::optional<Error> finish(std::optional<std::chrono::duration<double>> limit = {});
  // Results of saves since the last call, oldest first; empty on ranks other than 0.
  std::vector<SaveResult> take_results();

 private:
  struct Save;
  template <class Do>
  void with_retries(Do attempt) const;
  void write(Save& save);
  void commit(Save& save, std::vector<std::string> shares);
  void abandon(const Save& save) const;
  void fail(const Save& save, const Error& error);
  bool wait_idle(std::optional<std::chrono::steady_clock::time_point> until);
  bool is_first() const { return ranks_.role().is_first(); }

  std::shared_ptr<CheckpointStore> storage_;
  RankGroups& ranks_;
  Options options_;
  std::shared_ptr<Save> save_;  // the last one started
  bool is_open_ = false;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> give_up_ = false;
  std::mutex mutex_;
  std::vector<SaveResult> results_;
  std::optional<Error> failure_;  // since the last finish()
  TaskThread thread_;             // destroyed first
};

}  // namespace tenon
