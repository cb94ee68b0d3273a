// SPDX-License-Identifier: Apache-2.0
//
// Saves checkpoints while the run goes on: each rank writes its share on a thread of its own, and
// when all have, rank 0 writes the index and commits, on its thread too. One save is under way at a
// time. What fails is tried again, and then told; it never ends in half a checkpoint.
// Invariant: all ranks agree on which save is open.
// Threads: the train thread, but for what is said to be called from another.
#pragma once

#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/distributed/collective.hpp"
#include "host/distributed/task_thread.hpp"
#include "host/error/error.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tenon {

// What became of a save, on rank 0.
struct SaveResult {
  std::string bundle;
  std::string address = {};         // of what was made; "" where nothing was
  std::optional<Error> error = {};  // none: it is committed
  uint64_t bytes = 0;               // of tensors, of all ranks
  double seconds = 0;               // from begin() on
};

class CheckpointSaver {
 public:
  struct Options {
    int retries = 2;                       // after the first attempt
    std::chrono::milliseconds pause{200};  // before the first of them, doubled each time
    // Called on the writing thread of rank 0 after each commit: for what is to be removed now. What
    // it throws is told as a warning.
    std::function<void(const std::string& bundle)> on_commit = {};
    // Where the bundle is but the material for something else: makes that of the committed bundle,
    // on the same thread, and returns its address. The bundle is removed then. What it throws is
    // the save's failure; storage.io is tried again before.
    std::function<std::string(const std::string& bundle, const std::atomic<bool>& give_up)> make =
        {};
  };

  CheckpointSaver(std::shared_ptr<BundleStorage> storage,
                  Collective& collective,
                  WriterPlace place,
                  Options options);
  // Gives up what is under way. What is not committed then never is.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Makes memory ready for copies of such a state, while the run goes on: the first save would wait
  // for it.
  void prepare(const StateTree& tree);
  // Begins to write a state, once what is under way is finished: every rank with its own tree and
  // equal other arguments. `name` is that of the bundle; where a bundle of that name is there, a
  // number is added.
  void begin(const std::string& name,
             StateTree tree,
             CheckpointFacts facts,
             const std::string& frozen_recipe);
  // True while this rank's share is under way.
  bool is_writing() const { return is_writing_; }
  // True from begin() until conclude().
  bool is_open() const { return is_open_; }
  // Every rank, where none is writing: hands the shares to rank 0, which goes on to the commit.
  void conclude();
  // Every rank: waits for all that is under way. Returns what has gone wrong with it, on all ranks.
  // A save that takes longer than `limit` is given up.
  std::optional<Error> finish(std::optional<std::chrono::duration<double>> limit = {});
  // What came of saves since the last call, oldest first. On ranks other than 0: none.
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
  bool is_first() const { return place_.rank == 0; }

  std::shared_ptr<BundleStorage> storage_;
  Collective& collective_;
  WriterPlace place_;
  Options options_;
  std::shared_ptr<Save> save_;  // the last begun
  bool is_open_ = false;
  std::atomic<bool> is_writing_ = false;
  std::atomic<bool> give_up_ = false;
  std::mutex mutex_;
  std::vector<SaveResult> results_;
  std::optional<Error> failure_;  // since the last finish()
  TaskThread thread_;             // goes first
};

}  // namespace tenon
