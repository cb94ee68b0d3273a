// SPDX-License-Identifier: Apache-2.0
//
// What a person sees of a run on the terminal: one line that is redrawn where the terminal can,
// plain lines where it cannot (a file, a pipe, CI). All of it goes into the log file too, quiet or
// not.
// Threads: the train thread alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

struct ProgressState {
  uint64_t step = 0;
  std::optional<uint64_t> total_steps;
  double loss = 0;
  double lr = 0;
  std::optional<double> grad_norm;
  double samples_per_second = 0;
  double tokens_per_second = 0;  // 0 if the data has no tokens
  double seconds = 0;            // since training began
  uint64_t non_finite_steps = 0;
  std::string window = {};  // label of the window that is trained on; "" if there is none
};

// "3 min 20 s", "45 s", "2 h 05 min".
std::string duration_text(double seconds);
// "869,504".
std::string grouped_digits(int64_t number);
// The line for a state, without colours or line break.
std::string progress_text(const ProgressState& state);

class Progress {
 public:
  enum class Style { kAuto, kPlain, kQuiet };
  // kAuto redraws where stdout is a terminal.
  explicit Progress(Style style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const ProgressState& state);
  // A separate line that stays: header, evaluation, outcome.
  void say(const std::string& line);

 private:
  bool is_live_;
  bool is_quiet_;
  bool has_open_line_ = false;
};

}  // namespace tenon
