// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a metric sink (contract: metric_sink.h).

#pragma once

#include <tenon/metric_sink.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <string>

namespace tenon {

class MetricSinkProxy {
 public:
  // Errors   plugin.missing_interface
  // Threads  [main]
  explicit MetricSinkProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }

  // `run_dir` exists.
  //
  // Errors   PluginError
  // Threads  [main], once, before anything else
  void open(const std::string& run_dir) const {
    instance_.call("open", [&] { return table_->open(instance_.self(), run_dir.c_str()); });
  }

  // Errors   PluginError
  // Threads  [step]
  void write(const tenon_metric_record& record) const {
    instance_.call("write", [&] { return table_->write(instance_.self(), &record); });
  }

  // Errors   PluginError
  // Threads  [step]
  void flush() const {
    instance_.call("flush", [&] { return table_->flush(instance_.self()); });
  }

  // Prepares the sink for a run that resumes from `step`. The sink drops the records of later
  // steps, and of `step` all except the first `records_of_step`. A sink without `resume` keeps all.
  //
  // Errors   PluginError
  // Threads  [main], after open and before write
  void resume(uint64_t step, uint64_t records_of_step) const {
    if (TENON_HAS(tenon_metric_sink, table_, resume)) {
      instance_.call("resume",
                     [&] { return table_->resume(instance_.self(), step, records_of_step); });
    }
  }

 private:
  ComponentInstance instance_;
  const tenon_metric_sink* table_;
};

}  // namespace tenon
