// SPDX-License-Identifier: Apache-2.0
//
// The metric sinks of a run. A sink that fails costs a warning, not the run.
// Threads: the train thread alone.
#pragma once

#include "host/metrics/metric_book.hpp"
#include "host/plugin/metric_sink_proxy.hpp"

#include <string>
#include <vector>

namespace tenon {

class SinkList {
 public:
  explicit SinkList(std::vector<MetricSinkProxy> sinks)
      : sinks_(std::move(sinks)), num_failures_(sinks_.size(), 0) {}

  // Errors  plugin.failed: a sink that cannot even be opened ends the run before it begins
  void open(const std::string& run_dir);
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
};

}  // namespace tenon
