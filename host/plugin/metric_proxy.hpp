// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a metric (contract: metric.h).

#pragma once

#include <tenon/metric.h>

#include "host/plugin/instance.hpp"
#include "host/plugin/port_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct MetricStateSpec {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t dtype = TENON_F64;
  uint32_t reduce = TENON_REDUCE_SUM;
  double init = 0;
};

struct MetricInfo {
  uint32_t periods = 0;  // TENON_PERIOD_*
  std::vector<Port> ports;
  std::vector<MetricStateSpec> states;
  std::vector<std::string> metrics;
};

class MetricProxy {
 public:
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit MetricProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const MetricInfo& info() const noexcept { return info_; }

  // For all functions below: `states`, `others` and `appended_own` have info().states.size()
  // entries.
  //
  // Errors   PluginError
  // Threads  [step]

  // Adds one microbatch. If it throws, the caller still owns handles that are already in
  // `appended_own`.
  void update(const tenon_exec& exec,
              const tenon_tensor* const* inputs,
              std::size_t num_inputs,
              tenon_tensor* const* states,
              tenon_tensor** appended_own) const {
    const tenon_metric_update_args args{.struct_size = sizeof(tenon_metric_update_args),
                                        .inputs = inputs,
                                        .num_inputs = num_inputs,
                                        .states = states,
                                        .num_states = info_.states.size(),
                                        .appended_own = appended_own};
    instance_.call("update", [&] { return table_->update(instance_.self(), &exec, &args); });
  }

  // Merges `others` into `states`. Requires a state with TENON_REDUCE_OWN.
  void merge(const tenon_exec& exec,
             tenon_tensor* const* states,
             const tenon_tensor* const* others) const {
    const tenon_metric_merge_args args{.struct_size = sizeof(tenon_metric_merge_args),
                                       .states = states,
                                       .others = others,
                                       .num_states = info_.states.size()};
    instance_.call("merge", [&] { return table_->merge(instance_.self(), &exec, &args); });
  }

  // Returns the metrics, in the order of info().metrics.
  std::vector<double> compute(const tenon_exec& exec, const tenon_tensor* const* states) const {
    std::vector<double> metrics(info_.metrics.size());
    const tenon_metric_compute_args args{.struct_size = sizeof(tenon_metric_compute_args),
                                         .states = states,
                                         .num_states = info_.states.size(),
                                         .out_values = metrics.data(),
                                         .num_metrics = metrics.size()};
    instance_.call("compute", [&] { return table_->compute(instance_.self(), &exec, &args); });
    return metrics;
  }

  // Called after the host has set the states to their `init` values.
  void reset(const tenon_exec& exec, tenon_tensor* const* states) const {
    if (has_reset_) {
      const tenon_metric_reset_args args{.struct_size = sizeof(tenon_metric_reset_args),
                                         .states = states,
                                         .num_states = info_.states.size()};
      instance_.call("reset", [&] { return table_->reset(instance_.self(), &exec, &args); });
    }
  }

 private:
  ComponentInstance instance_;
  const tenon_metric* table_;
  MetricInfo info_;
  bool has_reset_;
};

}  // namespace tenon
