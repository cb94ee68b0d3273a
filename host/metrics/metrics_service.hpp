// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.metrics/1: adds metrics from plugins to the run's MetricBook.
#pragma once

#include <tenon/metrics.h>

#include <string>

namespace tenon {

class MetricBook;

const tenon_metrics_api* metrics_service();

// Connects the service to a run's book while this object exists. The service's functions have no
// argument for the run, and a process has one run, so the book is a global.
// Threads  [main]
class MetricsInUse {
 public:
  explicit MetricsInUse(MetricBook& book);
  ~MetricsInUse();
  MetricsInUse(const MetricsInUse&) = delete;
  MetricsInUse& operator=(const MetricsInUse&) = delete;

 private:
  MetricBook* before_;  // in use again afterwards; may be null
};

// Prepends `prefix` to the names of metrics from the service while this object exists. So metrics
// that a component adds during an evaluation belong to that evaluation.
// Threads  [step]
class MetricPrefix {
 public:
  explicit MetricPrefix(std::string prefix);
  ~MetricPrefix();
  MetricPrefix(const MetricPrefix&) = delete;
  MetricPrefix& operator=(const MetricPrefix&) = delete;
};

}  // namespace tenon
