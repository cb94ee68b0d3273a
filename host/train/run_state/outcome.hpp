// SPDX-License-Identifier: Apache-2.0
//
// How a run ended, for the last line, the summary and the exit code.
#pragma once

#include "host/distributed/collectives/traffic.hpp"
#include "host/error/error.hpp"
#include "host/error/exit_code.hpp"
#include "host/train/run_state/run_state.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// False where nothing was done that is worth a run folder: what is wrong was told.
inline bool leaves_folder(ExitCode code) {
  return code != ExitCode::kUsage && code != ExitCode::kRecipe;
}

// How a run ends that has failed.
struct FailedEnd {
  Error error;  // of this rank, or of the one that was first
  ExitCode code = ExitCode::kFailed;
  bool is_told = false;  // on the terminal, by the report of all ranks
};

// Updates that were not finite; those that a loss scaler expects are none of them.
struct NonFiniteCount {
  uint64_t steps = 0;        // so many in all
  uint64_t consecutive = 0;  // up to the last step
  uint64_t longest_streak = 0;
  uint64_t last_step = 0;
  std::string last_origin;  // where it arose; "" where there was none
};

// What became of the windows of data.train.
struct WindowCount {
  uint64_t skipped = 0;   // as the dataset or the recipe asked
  uint64_t repeated = 0;  // that came a second time, and were left out
  uint64_t empty = 0;     // that had no batch
  std::string last;       // label of the last one that was opened
};

// The evaluation whose parameters the run has ended with.
struct BestEvaluation {
  uint64_t step = 0;
  std::string metric;
  double value = 0;
  int64_t bytes = 0;  // what it took to keep them
};

// A run that went wrong has gone back to an earlier checkpoint.
struct RollBackRecord {
  uint64_t step = 0;       // the last one that was made
  uint64_t to = 0;         // the one that the checkpoint was taken after
  std::string checkpoint;  // the checkpoint's name
  std::string why;
};

// What came of the saves of a run.
struct SaveCount {
  uint64_t committed = 0;
  uint64_t failed = 0;
  std::string last;  // the newest committed one, with its address
};

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string reason;    // "reached 300 steps", "received SIGTERM", an error's text
  std::string error_id;  // "" where there was none
  RunState state;
  double seconds = 0;
  long lost_records = 0;                       // of figures, that some sink could not write
  std::map<std::string, double> last_metrics;  // the last value of each figure
  NonFiniteCount non_finite;
  WindowCount windows;
  std::optional<BestEvaluation> best;
  std::optional<SaveCount> saves;          // none where nothing is saved
  std::optional<SaveCount> exports;        // none where the recipe asks for none
  std::string resumed_from;                // a checkpoint's address; "" where the run began anew
  uint64_t resumed_at = 0;                 // the step it was taken after
  std::vector<RollBackRecord> roll_backs;  // of all parts of the run, oldest first
  std::vector<std::string> loaded_from;    // what the run began with, of others; by load
  uint64_t num_reloads = 0;                // what was loaded again
  std::string parameters_hash;             // "" where there were none
  Traffic traffic;                         // of this rank, in the loop and what stands before it
  int64_t peak_tensor_bytes = 0;  // of CPU tensors, in the same time; 0 where it is not counted

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
