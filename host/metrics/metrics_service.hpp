// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.metrics/1: metrics that plugins add reach the book of the run.
#pragma once

#include <tenon/metrics.h>

#include <string>

namespace tenon {

class MetricBook;

const tenon_metrics_api* metrics_service();

// Directs the service to a run's book while this object lives. The service has no run in its
// arguments, and a process has one run: this is the one place that remembers which.
// Threads [main]
class MetricsInUse {
 public:
  explicit MetricsInUse(MetricBook& book);
  ~MetricsInUse();
  MetricsInUse(const MetricsInUse&) = delete;
  MetricsInUse& operator=(const MetricsInUse&) = delete;
};

// Puts `prefix` before the names of metrics that come through the service while this object lives:
// what a component counts in an evaluation is a metric of that evaluation.
// Threads  [step]
class MetricPrefix {
 public:
  explicit MetricPrefix(std::string prefix);
  ~MetricPrefix();
  MetricPrefix(const MetricPrefix&) = delete;
  MetricPrefix& operator=(const MetricPrefix&) = delete;
};

}  // namespace tenon
