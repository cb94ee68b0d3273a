// SPDX-License-Identifier: Apache-2.0
//
// The outcome of a run, for its last line, its summary and its exit code.
#pragma once

#include "host/distributed/collectives/traffic.hpp"
#include "host/error/error.hpp"
#include "host/error/exit_code.hpp"
#include "host/journal/run_state.hpp"
#include "host/train/run_state/flop_report.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// False for exit codes of runs that did no work: the error was reported, and no folder is kept.
inline bool leaves_folder(ExitCode code) {
  return code != ExitCode::kUsage && code != ExitCode::kRecipe;
}

// The end of a failed run.
struct FailedEnd {
  Error error;  // of this rank, or of the first rank that failed
  ExitCode code = ExitCode::kFailed;
  bool is_reported = false;  // printed, in the report of all ranks
};

// Non-finite updates, except updates that the loss scaler skips as expected.
struct NonFiniteCount {
  uint64_t steps = 0;        // in total
  uint64_t consecutive = 0;  // up to the last step
  uint64_t longest_streak = 0;
  uint64_t last_step = 0;
  std::string last_origin;  // of the last non-finite update; "" if there was none
};

// Windows and samples of data.train that were not trained on, and the last window.
struct WindowCount {
  uint64_t skipped = 0;   // requested by the dataset or the recipe
  uint64_t repeated = 0;  // appeared again in an epoch and were skipped
  uint64_t empty = 0;     // had no batch
  int64_t dropped = 0;    // samples, by data.last
  // Late windows and files that are not read, and why: one line each.
  std::vector<std::string> left_out = {};
  std::string last;  // label of the last window opened
};

// Rows of data.train, with packing, over all ranks and epochs.
struct PackedRows {
  int64_t row_tokens = 0;  // tokens of a row
  int64_t rows = 0;
  int64_t tokens = 0;     // without padding
  int64_t samples = 0;    // that begin in the rows
  int64_t over_long = 0;  // samples longer than a row
  int64_t lost = 0;       // tokens of samples that were dropped or cut
};

// The best evaluation so far. A run that is done ends with its parameters.
struct BestEvaluation {
  uint64_t step = 0;
  std::string metric;
  double value = 0;
  int64_t bytes = 0;  // used to keep the parameters
};

// Record of a rollback to an earlier checkpoint.
struct RollBackRecord {
  uint64_t step = 0;       // the last step before the rollback
  uint64_t to = 0;         // the step of the checkpoint
  std::string checkpoint;  // the checkpoint's name
  std::string why;
};

// A save that was due and does not exist.
struct LostSave {
  uint64_t step = 0;
  std::string why;
  bool is_cut_off = false;  // canceled at the end of the grace period of a signal
};

// Counts of the saves of a run.
struct SaveCount {
  uint64_t committed = 0;
  uint64_t failed = 0;
  std::string last;                   // address of the newest committed save
  std::optional<LostSave> lost = {};  // the last save, or the last export of a format, if it failed
};

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string reason;    // "reached 300 steps", "received SIGTERM", an error's text
  std::string error_id;  // "" if there was no error
  // The run had ended before this start, which trained nothing.
  bool is_already_complete = false;
  // Nothing was left to evaluate or to export either: the summary of the earlier start is right.
  bool keeps_summary = false;
  RunState state;
  double seconds = 0;
  long lost_records = 0;                       // failed writes of metrics, over all sinks
  std::map<std::string, double> last_metrics;  // last value of each metric
  NonFiniteCount non_finite;
  WindowCount windows;
  std::optional<PackedRows> packed;  // none without packing
  std::optional<FlopReport> flops;   // none without peak_flops
  std::optional<BestEvaluation> best;
  std::optional<SaveCount> saves;          // none if the run saves no checkpoints
  std::optional<SaveCount> exports;        // none if the recipe has no exports
  std::string resumed_from;                // address of the checkpoint; "" if not resumed
  uint64_t resumed_at = 0;                 // step of that checkpoint
  std::vector<RollBackRecord> roll_backs;  // also from before a resume; oldest first
  std::vector<std::string> loaded_from;    // addresses of the initial loads, in order
  uint64_t num_reloads = 0;                // loads repeated during the run
  std::string parameters_hash;             // "" if it was not computed
  Traffic traffic;                         // sent by this rank, except for parameters_hash
  int64_t peak_tensor_bytes = 0;           // of CPU tensors in this process; 0 if not counted

  // "done", "stopped early", "failed".
  const char* word() const {
    switch (code) {
      case ExitCode::kDone:
        return "done";
      case ExitCode::kStopped:
        return "stopped early";
      default:
        return "failed";
    }
  }
};

}  // namespace tenon
