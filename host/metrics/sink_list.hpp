// SPDX-License-Identifier: Apache-2.0
//
// The metric sinks of a run. A sink that fails to write causes a warning and does not end the run.
// A loop reader of the journal. open() and resume() are not read from it: if one of them fails, the
// run ends.
// Threads: the train thread only.
#pragma once

#include "host/journal/entries.hpp"
#include "host/journal/metric_record.hpp"
#include "host/plugin/metric_sink_proxy.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

class SinkList {
 public:
  explicit SinkList(std::vector<MetricSinkProxy> sinks)
      : sinks_(std::move(sinks)), num_failures_(sinks_.size(), 0) {}

  // Opens all sinks.
  // Errors  plugin.failed: a sink that cannot be opened ends the run before it starts
  void open(const std::string& run_dir);
  // Resumes from, or rolls back to, a checkpoint of `step`, at which num_of_step(step) was
  // `records_of_step`. Sinks drop later records.
  // Errors  plugin.failed
  void resume(uint64_t step, uint64_t records_of_step);
  // Number of records written in this step, including those before a resume at this step.
  uint64_t num_of_step(uint64_t step) const { return step == last_step_ ? num_of_step_ : 0; }
  // Writes a record of this time to all sinks. Logs the first failure of each sink, and counts all
  // failures.
  void write(const MetricRecord& record,
             std::chrono::system_clock::time_point time = std::chrono::system_clock::now());
  void flush();
  // Number of failed writes and flushes, over all sinks.
  long num_lost() const;

  void read(const Stamp& stamp, const MetricsRecorded& entry) { write(entry.record, stamp.time); }
  void read(const Stamp& stamp, const EvaluationRecorded& entry) {
    write(entry.record, stamp.time);
  }
  void read(const Stamp&, const LoopEnded&) { flush(); }

 private:
  template <class Call>
  void try_each(Call call);

  std::vector<MetricSinkProxy> sinks_;
  std::vector<long> num_failures_;
  uint64_t last_step_ = 0;  // of the last record
  uint64_t num_of_step_ = 0;
};

}  // namespace tenon
