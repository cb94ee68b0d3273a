// SPDX-License-Identifier: Apache-2.0
//
// The boundaries of a run: points between steps, windows or epochs at which the state of the run is
// complete and can be saved.
#pragma once

namespace tenon {

enum class RunBoundary {
  kStart,   // before the first epoch, after initialization
  kStep,    // at the end of a step, after its evaluation
  kWindow,  // at the end of a window, before after_window
  kEpoch,   // at the end of an epoch, before after_epoch
};

// Returns "start", "step", "window" or "epoch", as stored in checkpoints.
constexpr const char* boundary_name(RunBoundary boundary) {
  switch (boundary) {
    case RunBoundary::kStart:
      return "start";
    case RunBoundary::kStep:
      return "step";
    case RunBoundary::kWindow:
      return "window";
    case RunBoundary::kEpoch:
      return "epoch";
  }
  return "";
}

}  // namespace tenon
