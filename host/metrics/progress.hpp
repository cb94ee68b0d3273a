// SPDX-License-Identifier: Apache-2.0
//
// Prints the progress of a run on the terminal. On a terminal, redraws one line; otherwise (file,
// pipe, CI) prints plain lines. Also writes every line to the log file, even with kQuiet. A loop
// reader of the journal.
// Threads: the train thread only.
#pragma once

#include "host/journal/entries.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

struct ProgressState {
  uint64_t step = 0;
  std::optional<uint64_t> total_steps = {};
  double loss = 0;
  double lr = 0;
  std::optional<double> grad_norm = {};
  double samples_per_second = 0;
  double tokens_per_second = 0;    // 0 if the data has no tokens
  std::optional<double> mfu = {};  // share of the device's peak; absent if unknown
  double seconds = 0;              // since the start of training
  uint64_t non_finite_steps = 0;
  std::string window = {};  // label of the current window; "" if there are no windows
};

// Returns a duration as text: "3 min 20 s", "45 s", "2 h 05 min".
std::string duration_text(double seconds);
// Returns a number with thousands separators: "869,504".
std::string grouped_digits(int64_t number);
// Returns the line for a state, without a line break.
std::string progress_text(const ProgressState& state);
// Returns the state that the line of a record shows. A loss that was not computed is NaN; a loss or
// learning rate that the record lacks is 0.
ProgressState progress_of(const MetricsRecorded& entry);
// Returns "saved ADDRESS (1.5 MiB, 0.2 s)", or "exported ...".
std::string saved_text(const SaveEnded& entry);

class Progress {
 public:
  enum class Style { kAuto, kPlain, kQuiet };
  // kAuto redraws if stdout is a terminal.
  explicit Progress(Style style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const ProgressState& state);
  // Prints a separate line that stays: header, evaluation, outcome.
  void say(const std::string& line);

  void read(const Stamp& stamp, const RunStarted& entry);
  void read(const Stamp& stamp, const MetricsRecorded& entry);
  void read(const Stamp& stamp, const EvaluationRecorded& entry);
  // A failed save is a warning in the log.
  void read(const Stamp& stamp, const SaveEnded& entry);
  // A rollback is a warning in the log.
  void read(const Stamp& stamp, const StateRestored& entry);
  void read(const Stamp& stamp, const Remark& entry);
  void read(const Stamp& stamp, const RunEnded& entry);

 private:
  bool is_live_;
  bool is_quiet_;
};

}  // namespace tenon
