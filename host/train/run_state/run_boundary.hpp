// SPDX-License-Identifier: Apache-2.0
//
// The boundaries of a run: points of the loop at which nothing is half done, so that the whole
// state of the run can be taken.
#pragma once

namespace tenon {

enum class RunBoundary {
  kStart,   // before the first epoch: everything is initialized, nothing is trained
  kStep,    // at the end of a step, after its evaluation
  kWindow,  // at the end of a window, before after_window
  kEpoch,   // at the end of an epoch, before after_epoch
};

// "start", "step", "window", "epoch": the names that checkpoints carry.
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
