// SPDX-License-Identifier: Apache-2.0
//
// The epochs and windows of a data source in sequence, each window with a loader, and the exact
// position for checkpoints. The caller decides when a window ends early, when an epoch is over, and
// when ranks must agree.
//
//   stream.begin_epoch(0);
//   while (stream.next_window())
//     while (std::optional<Batch> batch = stream.loader().next()) ...
//
// Windows are identified by their ids. A window is opened once per epoch, even if the dataset
// returns it twice or the run is resumed.
// Invariants: at most one window is open; no read is running while windows or epochs change.
// Threads: owned and driven by one thread.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/loader.hpp"
#include "host/data/skip_list.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Records what the data of a window is, for sources whose data may change between two runs.
struct WindowRecorder {
  // Returns a text; "" if nothing is known.
  std::function<std::string(const Window& window)> record;
  // Compares the text of a checkpoint with that of now.
  // Errors  data.changed
  std::function<void(const std::string& then, const std::string& now)> compare;
};

class DataStream final : public Stateful {
 public:
  // `source` is borrowed. Windows that match `excluded` are counted as skipped.
  DataStream(DataSource& source, const LoaderOptions& options, SkipList excluded = {});

  // Saves the record of each open window with the position, and compares it when a position is
  // loaded. Only for sources with windows.
  void use_recorder(WindowRecorder recorder) { recorder_ = std::move(recorder); }

  // Starts epoch `epoch`, counted from 0, from its beginning. Closes an open window.
  //
  // Errors   what the dataset returns
  void begin_epoch(uint64_t epoch);

  // Closes the open window and opens the next window that is not skipped; reads start at once.
  // Returns false if the epoch has no more windows, if LoaderOptions::max_batches batches have been
  // read, or if there is no window yet: see ask_again(). A source without windows has one window
  // per epoch.
  //
  // Errors   what the dataset returns; data.empty as Loader
  bool next_window();

  // If next_window() returned false: how long to wait before calling it again, or nothing if the
  // dataset announced no further window.
  std::optional<std::chrono::milliseconds> ask_again() const { return ask_again_; }

  // Opens the open window again, from its start, with other options. No batch may have been taken
  // from it. Batches read this way do not change the position or counts. resume_options() opens the
  // window once more from its start, with the original options.
  void use_options(const LoaderOptions& options);
  void resume_options();
  // Opens the open window again from its start, and discards what was read of it.
  void rewind_window();

  // Reverts a next_window() that returned true: for the position, the window has not been opened.
  // The dataset does not move back, so only close_window, snapshot or a new epoch may follow.
  void take_back_window();

  // Stops reading ahead, and discards the position in the window.
  void close_window();

  // True from next_window() until the window is closed; also after load() if the window was open in
  // the snapshot. It may have no batch left.
  bool has_window() const { return loader_.has_value(); }

  // Returns the loader of the open window.
  Loader& loader();
  // The open window; empty if the source has no windows.
  const std::optional<Window>& window() const { return window_; }
  // Returns the label of the open window; empty if the source has no windows.
  const std::string& window_label() const;
  // Number of the window in the epoch, from 0; skipped windows count.
  int64_t window_number() const { return num_windows_ - 1; }
  // Same, without skipped windows.
  int64_t opened_number() const { return num_opened_ - 1; }

  // Empty before the first begin_epoch().
  std::optional<uint64_t> epoch() const { return epoch_; }
  // Windows of this epoch that the dataset or the recipe skips.
  int64_t num_skipped() const { return num_skipped_; }
  // Windows that the dataset returned more than once in this epoch.
  int64_t num_repeated() const { return num_repeated_; }
  const SkipList& excluded() const { return excluded_; }
  // Checks the windows that the source could not read when the run started. Windows that are
  // skipped, or were read before, may be among them.
  //
  // Errors   data.bad_window
  void check_windows();

  // Returns how many samples of each part of a mix have been delivered in all epochs: in map style
  // to all ranks, in stream style from the shards of this rank. Empty if the source is not a mix.
  std::vector<int64_t> part_samples() const;

  // With packing: counts of the rows that were delivered to all ranks, in this epoch and in all
  // epochs.
  PackCounts pack_counts_of_epoch() const;
  PackCounts pack_counts() const;

  DataSource& source() { return source_; }
  const LoaderOptions& options() const { return options_; }

  // Saves the epoch, the window, and the position in the window. A later load() repeats and loses
  // no reads, however many were read ahead. The time does not depend on the position.
  void snapshot(StateTree& tree, const std::string& prefix) const override;

  // True if LoaderOptions::max_batches batches of this epoch have been read: its window was cut
  // short.
  bool has_reached_limit() const;

  // Resumes at the snapshot: resets the epoch, finds the open window by its id, and opens it at its
  // position. Finished windows may be missing. An unfinished window that now comes before the open
  // window is skipped with a warning.
  //
  // Errors   state.missing_entry, state.wrong_type; data.bad_state for a state of another version
  //          or kind of dataset; data.changed if the dataset does not lead to the same window
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  std::optional<Window> walk_to_next();
  void open(const LoaderPosition& start);
  void record_window();
  void walk_back_to(uint64_t id, const std::string& label);
  void skip_late_windows();
  void skip_late(const Window& window, const std::string& last);
  [[noreturn]] void fail_load(const char* id, const std::string& what) const;
  // Throws if the saved state does not belong to this source.
  void check_saved(const StateTree& tree, const std::string& prefix) const;
  void put_packs(StateTree& tree, const std::string& prefix) const;
  void get_packs(const StateTree& tree, const std::string& prefix);
  // Returns the saved position in the open window.
  LoaderPosition saved_position(const StateTree& tree, const std::string& prefix);
  PackPosition saved_row(const StateTree& tree, const std::string& prefix);

  DataSource& source_;
  LoaderOptions options_;
  SkipList excluded_;
  std::optional<uint64_t> epoch_;
  std::optional<std::chrono::milliseconds> ask_again_;
  bool has_other_options_ = false;
  int64_t num_windows_ = 0;  // windows that the source returned in this epoch
  int64_t num_opened_ = 0;
  int64_t num_skipped_ = 0;
  int64_t num_repeated_ = 0;
  std::set<uint64_t> seen_;            // ids of this epoch's windows, including the open window
  std::set<uint64_t> expected_;        // subset of seen_, expected again after a load
  int64_t num_batches_before_ = 0;     // of this epoch, in closed windows or before a load
  std::vector<int64_t> parts_before_;  // samples of each part, in finished epochs
  PackCounts packs_before_epoch_;      // in finished epochs
  PackCounts packs_before_;            // of this epoch, in closed windows or before a load
  WindowRecorder recorder_;
  std::string record_;  // of the open window; "" if there is none
  std::optional<Window> window_;
  std::optional<Loader> loader_;  // last: its threads stop before other members are destroyed
};

}  // namespace tenon
