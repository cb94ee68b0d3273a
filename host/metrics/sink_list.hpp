// SPDX-License-Identifier: Apache-2.0
//
// The metric sinks of a run. A sink that fails costs a warning, not the run.
// Threads: the train thread alone.
#pragma once

#include "host/metrics/metric_book.hpp"
#include "host/plugin/metric_sink_proxy.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

class SinkList {
 public:
  explicit SinkList(std::vector<MetricSinkProxy> sinks)
      : sinks_(std::move(sinks)), num_failures_(sinks_.size(), 0) {}

  // Errors  plugin.failed: a sink that cannot even be opened ends the run before it begins
  void open(const std::string& run_dir);
  // The run resumes from a checkpoint of `step`, or back to it, at which num_of_step(step) was
  // `records_of_step`: what sinks have of later records is dropped.
  // Errors  plugin.failed
  void resume(uint64_t step, uint64_t records_of_step);
  // How many records of this step were written, with those before a resume at it.
  uint64_t num_of_step(uint64_t step) const { return step == last_step_ ? num_of_step_ : 0; }
  // The first failure of each sink is logged, all are counted.
  void write(const MetricRecord& record);
  void flush();
  // Records that some sink has lost.
  long num_lost() const;

 private:
  template <class Call>
  void try_each(Call call);

  std::vector<MetricSinkProxy> sinks_;
  std::vector<long> num_failures_;
  uint64_t last_step_ = 0;  // of the last record
  uint64_t num_of_step_ = 0;
};

}  // namespace tenon
