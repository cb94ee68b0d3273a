// SPDX-License-Identifier: Apache-2.0
//
// How a run ended, for the last line, the summary and the exit code.
#pragma once

#include "host/error/exit_code.hpp"
#include "host/train/run_state.hpp"

#include <map>
#include <optional>
#include <string>

namespace tenon {

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string reason;    // "reached 300 steps", "received SIGTERM", an error's text
  std::string error_id;  // "" where there was none
  RunState state;
  double seconds = 0;
  std::map<std::string, double> last_metrics;  // the last value of each figure

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
