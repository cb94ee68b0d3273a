// SPDX-License-Identifier: Apache-2.0
//
// What a run has computed, by formula, for its summary.
#pragma once

#include <string>
#include <vector>

namespace tenon {

struct FormulaFlops {
  std::string id = {};
  std::string why_not = {};  // "" if the formula applies; otherwise the values below are 0
  double model = 0;          // operations of the training steps of this process, over all ranks
  double hardware = 0;       // the same with recomputed forwards; NaN if these are unknown
};

struct FlopReport {
  double peak = 0;  // operations per second of all ranks
  bool is_peak_measured = false;
  double seconds = 0;  // of training since the process started, without evaluations
  std::vector<FormulaFlops> formulas = {};

  // The share of the peak that `flops` operations took.
  double utilization(double flops) const {
    return seconds > 0 && peak > 0 ? flops / (seconds * peak) : 0.0;
  }
};

}  // namespace tenon
