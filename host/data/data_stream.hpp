// SPDX-License-Identifier: Apache-2.0
//
// The epochs and windows of a data source, one after the other, each with its loader; and the exact
// position, for checkpoints. It decides nothing: when a window ends early, an epoch is over, or
// ranks must agree is the caller's.
//
//   stream.begin_epoch(0);
//   while (stream.next_window())
//     while (std::optional<Batch> batch = stream.loader().next()) ...
//
// Windows are known by their ids: one that this epoch has had is not opened again, whether the
// dataset gives it twice or the run has been resumed.
// Invariants: at most one window is open; no read is under way while windows or epochs change.
// Threads: owned and driven by one thread.

#pragma once

#include "host/data/data_source.hpp"
#include "host/data/loader.hpp"
#include "host/data/skip_list.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tenon {

class DataStream final : public Stateful {
 public:
  // `source` is borrowed. Windows that `excluded` names are counted as skipped.
  DataStream(DataSource& source, const LoaderOptions& options, SkipList excluded = {});

  // Starts epoch `epoch` over, counted from 0; an open window is closed.
  //
  // Errors   what the dataset returns
  void begin_epoch(uint64_t epoch);

  // Closes the open window and opens the next one that is not to be skipped; its reads begin at
  // once. False when the epoch has no more, or has given LoaderOptions::max_batches batches, or
  // if there is none yet: see ask_again(). A source without windows is one window an epoch.
  //
  // Errors   what the dataset returns; data.empty as Loader
  bool next_window();

  // After a next_window() that gave false: none, or how long to wait before it is called again, as
  // the dataset says that another window may come.
  std::optional<std::chrono::milliseconds> ask_again() const { return ask_again_; }

  // The open window, from which nothing may have been taken: opens it again, with other options.
  // What is read so is no part of the position, or of what is counted, until resume_options() opens
  // the window once more, from its start and with the stream's own options.
  void use_options(const LoaderOptions& options);
  void resume_options();
  // The open window from its start: what was read of it is as if it had not been.
  void rewind_window();

  // Takes back a next_window() that gave true: for the position, the window has not been opened.
  // The dataset stays behind it, so that nothing but close, snapshot or an epoch may follow.
  void take_back_window();

  // Stops reading ahead; the window's position is forgotten.
  void close_window();

  // True between next_window() and whatever closes the window; after load() too, if the window was
  // open in the snapshot. It may have no batch left.
  bool has_window() const { return loader_.has_value(); }

  // Of the open window.
  Loader& loader();
  // The window itself; none if the source has no windows.
  const std::optional<Window>& window() const { return window_; }
  // "" where the source has no windows.
  const std::string& window_label() const;
  // Its number in the epoch, from 0; skipped ones are counted.
  int64_t window_number() const { return num_windows_ - 1; }
  // The same, where skipped ones are not.
  int64_t opened_number() const { return num_opened_ - 1; }

  // None before the first begin_epoch().
  std::optional<uint64_t> epoch() const { return epoch_; }
  // Windows of this epoch that were skipped, because the dataset or the recipe said so.
  int64_t num_skipped() const { return num_skipped_; }
  // Windows that the dataset has given in this epoch, and had given before.
  int64_t num_repeated() const { return num_repeated_; }
  const SkipList& excluded() const { return excluded_; }

  // Of a mix: how many samples of each part have been handed out, in all epochs; in map style to
  // all ranks, in stream style from this rank's shards. Empty if the source is no mix.
  std::vector<int64_t> part_samples() const;

  DataSource& source() { return source_; }
  const LoaderOptions& options() const { return options_; }

  // Epoch, window, and how far it has been consumed; no reads are repeated or lost by a later
  // load(), whatever was read ahead. Takes no longer for a longer position.
  void snapshot(StateTree& tree, const std::string& prefix) const override;

  // True if this epoch has given LoaderOptions::max_batches batches: its window was cut, not read
  // out.
  bool has_reached_limit() const;

  // Goes on where the snapshot was taken: resets the epoch, walks the windows up to the one that
  // was open, found by its id, and opens it at its position. Windows that are over may be gone. One
  // that is not over, but stands before the open one by now, is skipped with a warning.
  //
  // Errors   state.missing_entry, state.wrong_type; data.bad_state for a state of another version
  // or
  //          kind of dataset; data.changed if the dataset does not lead to the same window
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  std::optional<Window> walk_to_next();
  void open(const LoaderPosition& start);
  void walk_back_to(uint64_t id, const std::string& label);
  [[noreturn]] void fail_load(const char* id, const std::string& what) const;
  // Throws if the saved state is not one of this source.
  void check_saved(const StateTree& tree, const std::string& prefix) const;
  // The position in the window that is open now.
  LoaderPosition saved_position(const StateTree& tree, const std::string& prefix);

  DataSource& source_;
  LoaderOptions options_;
  SkipList excluded_;
  std::optional<uint64_t> epoch_;
  std::optional<std::chrono::milliseconds> ask_again_;
  bool has_other_options_ = false;
  int64_t num_windows_ = 0;  // of this epoch, that the source has given
  int64_t num_opened_ = 0;
  int64_t num_skipped_ = 0;
  int64_t num_repeated_ = 0;
  std::set<uint64_t> seen_;            // ids of this epoch's windows, the open one included
  std::set<uint64_t> expected_;        // of them, those that are to come once more, after a load
  int64_t num_batches_before_ = 0;     // of this epoch, in windows that are closed or before a load
  std::vector<int64_t> parts_before_;  // samples of each part, in epochs that are over
  std::optional<Window> window_;
  std::optional<Loader> loader_;  // last: its threads stop before anything else goes
};

}  // namespace tenon
