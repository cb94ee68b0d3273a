// SPDX-License-Identifier: Apache-2.0
//
// Records a range of steps as a Chrome trace, with their events, blocks and operators, and the
// reads of loader threads. The recorded code marks its work with the spans of
// host/tensor/trace_span.hpp; the events of the loop become spans here. A loop reader of the
// journal; the first one, so that spans include the work of other readers.
// Invariants: it costs nothing outside its steps; a failure is a warning and never ends the run.
// Threads: the train thread alone.
#pragma once

#include "host/hook/event_spans.hpp"
#include "host/journal/entries.hpp"
#include "host/train/run_state/step_range.hpp"

#include <cstdint>
#include <string>

namespace tenon {

class StepProfile {
 public:
  enum class Devices { kCpu, kCpuAndGpu };

  // `file` is written after the last of `steps`, or at the end of the run if that is earlier.
  StepProfile(StepRange steps, std::string file, Devices devices);
  // Does not end the recording: call finish() or finish_run() first.
  ~StepProfile() = default;
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  // Called before the first event of a step. A step may occur again after a rollback.
  void begin_step(uint64_t step) {
    if (step == steps_.first && !is_on_) {
      start();
    }
  }
  // Returns true if the profile ends with this step: then call finish() once its spans have ended.
  bool ends_with(uint64_t step) const { return is_on_ && step == steps_.last; }

  // Ends the recording and writes the file. Does nothing if no recording is active.
  void finish();
  // Called at the end of a run. Like finish(), but warns if the run never reached the first step.
  void finish_run(uint64_t last_step);

  void read(const Stamp&, const StepBegan& entry) { begin_step(entry.state.step); }
  void read(const Stamp&, const StepEnded& entry) {
    if (ends_with(entry.state.step)) {
      finish();
    }
  }
  void read(const Stamp&, const LoopEnded& entry) { finish_run(entry.state.step); }
  void read(const EventBegan& event) {
    if (is_on_) {
      spans_.begin(event.event, event.step);
    }
  }
  void read(const EventEnded& event) { spans_.end(event.event); }

 private:
  void start();

  StepRange steps_;
  std::string file_;
  Devices devices_;
  bool is_on_ = false;
  EventSpans spans_;
};

}  // namespace tenon
