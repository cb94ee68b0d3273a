// SPDX-License-Identifier: Apache-2.0
//
// Opens the windows of training on all ranks together, supplies their microbatches, and reports on
// them. It does not know the model: the loop decides how to use a window.
// Invariants: all ranks have the same windows, and the same number of microbatches in each step; an
// accumulation never crosses the end of a window.
// Threads: the train thread; all functions except the counts are collective calls.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/data/shard_turns.hpp"
#include "host/distributed/collectives/agreement.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/run_services.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/same_data.hpp"
#include "host/train/state_fields.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class StepLog;
class StopConditions;

class WindowFeed final : public WithStateFields<WindowFeed> {
 public:
  // All are borrowed. Time that training waits for data is added to `log`. Ranks stop waiting for a
  // window when `stop` is interrupted or its time is up.
  WindowFeed(RunServices& run, const StopConditions& stop, StepLog& log);

  // ---- epochs and windows ----

  void begin_epoch(uint64_t epoch);
  // Opens the next window, and the next window of each paired set. If a paired set has no window
  // left, the epoch ends.
  NextWindow open_next();
  // Called before training on the open window. Makes it last_window(), and returns its label.
  const std::string& begin_window();
  // Reports and counts samples of the open window that are not trained on.
  void report_end_of_window();
  void report_empty_window();
  // Reports the rows of packing, and windows that the recipe asks to skip, but the epoch does not
  // have.
  void report_end_of_epoch();
  // Called if an epoch has trained no step.
  // Errors  data.empty
  [[noreturn]] void fail_empty_epoch() const;
  // Returns the counts of windows so far, including the epoch under way.
  WindowCount count() const;
  // Returns counts of the rows of all epochs, with packing.
  std::optional<PackedRows> packed_rows() const;
  const std::string& last_window() const { return count_.last; }

  // ---- batches of the open window ----

  // Starts to read the open window. Returns true if any rank has a batch.
  bool start_reading();
  // Votes kMoreData if this rank has a batch for the next step. The votes of all ranks are then
  // passed to hear().
  void vote(Agreement& votes);
  // Returns true if the window has another step.
  bool hear(Agreement& votes);
  // Returns the microbatches of one step; fewer if the window ends, more if the turns of a step
  // fall on few ranks. Counts and sums are empty. Requires that the window has another step.
  std::vector<Microbatch> take_microbatches();
  // Size of the batches of the last take_microbatches().
  int64_t batch_bytes() const { return batch_bytes_; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("windows_skipped", self.count_.skipped, kKeptOnRollBack);
    f.field("windows_repeated", self.count_.repeated, kKeptOnRollBack);
    f.field("windows_empty", self.count_.empty, kKeptOnRollBack);
    f.field("last_window", self.count_.last, kKeptOnRollBack);
    f.field("has_told_skip_list", self.has_reported_skip_list_, kKeptOnRollBack);
    f.field("dropped_samples", self.count_.dropped, kKeptOnRollBack | kOptional | kNotNegative);
    f.custom(
        "first_batch",
        [&](StateTree& tree, const std::string& at) { self.put_first_batches(tree, at); },
        [&](const auto& tree, const std::string& at) { self.get_first_batches(tree, at); },
        kKeptOnRollBack);
  }

 private:
  void report_packing();
  bool is_alone() const { return run_.ranks.groups.samples().is_alone(); }
  bool has_next_batch();
  // True if ranks take turns at the shards of a stream.
  bool takes_turns() const;
  bool has_turn(uint32_t shard) const;
  bool ask();
  void pass_asked(Agreement& votes);
  bool resolve_turns();
  std::vector<Batch> take_turns();
  std::optional<Batch> next_batch();
  NextWindow open(DataStream& data);
  void repeat_first(std::vector<Microbatch>& microbatches);
  void put_first_batches(StateTree& tree, const std::string& at) const;
  void get_first_batches(const StateTree& tree, const std::string& at);

  RunServices& run_;
  const StopConditions& stop_;
  StepLog& log_;
  std::vector<DataStream*> paired_;  // evaluation sets with windows paired with training windows
  WindowCount count_;                // excluding the epoch under way
  // Turns at the shards of the open window.
  std::optional<ShardTurns> turns_;
  std::vector<uint32_t> asked_;   // turns whose ranks are asked for a batch
  std::vector<uint32_t> agreed_;  // turns that the next step begins with
  bool has_reported_skip_list_ = false;
  std::vector<Batch> first_batches_;  // of the first step, if steps repeat them
  int64_t batch_bytes_ = 0;
};

}  // namespace tenon
