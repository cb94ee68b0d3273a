// SPDX-License-Identifier: Apache-2.0
//
// Records some steps of a run, with their events, blocks and operators, and the loader threads'
// reads, as a Chrome trace. What is recorded says host/tensor/trace_span.hpp where it happens.
// Invariants: it costs nothing outside its steps; it never ends a run: what goes wrong is a
// warning. Threads: the train thread alone.
#pragma once

#include "host/train/run_state/step_range.hpp"

#include <cstdint>
#include <string>

namespace tenon {

class StepProfile {
 public:
  enum class Devices { kCpu, kCpuAndGpu };

  // `file` is written when the last step has ended, or the run has.
  StepProfile(StepRange steps, std::string file, Devices devices);
  // Whoever begins ends, or finishes.
  ~StepProfile() = default;
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  // Before the first event of a step, which may be one that comes again.
  void begin_step(uint64_t step) {
    if (step == steps_.first && !is_on_) {
      start();
    }
  }
  // True if the profile ends with this step: finish() then, when its spans have ended.
  bool ends_with(uint64_t step) const { return is_on_ && step == steps_.last; }

  // Ends recording and writes the file; does nothing if it is not recording.
  void finish();
  // At the end of a run: the same, and says so if the run never came to the first step.
  void finish_run(uint64_t last_step);

 private:
  void start();

  StepRange steps_;
  std::string file_;
  Devices devices_;
  bool is_on_ = false;
};

}  // namespace tenon
