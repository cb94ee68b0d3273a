// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/sink_list.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"

#include <numeric>

namespace tenon {

template <class Call>
void SinkList::try_each(Call call) {
  for (size_t i = 0; i < sinks_.size(); ++i) {
    try {
      call(sinks_[i]);
    } catch (const Error& error) {
      if (num_failures_[i]++ == 0) {
        log_warning(std::string(error.what()) +
                    "; the run continues, and later failures of this sink are counted");
      }
    }
  }
}

void SinkList::open(const std::string& run_dir) {
  for (const auto& sink : sinks_) {
    sink.open(run_dir);
  }
}

void SinkList::resume(uint64_t step, uint64_t records_of_step) {
  last_step_ = step;
  num_of_step_ = records_of_step;
  for (const auto& sink : sinks_) {
    sink.resume(step, records_of_step);
  }
}

void SinkList::write(const MetricRecord& record, std::chrono::system_clock::time_point time) {
  num_of_step_ = num_of_step(record.step) + 1;
  last_step_ = record.step;
  std::vector<const char*> names;
  std::vector<double> values;
  for (const auto& [name, value] : record.values) {
    names.push_back(name.c_str());
    values.push_back(value);
  }
  tenon_metric_record abi{};
  abi.struct_size = sizeof(abi);
  abi.step = record.step;
  abi.unix_seconds = std::chrono::duration<double>(time.time_since_epoch()).count();
  abi.names = names.data();
  abi.values = values.data();
  abi.count = names.size();
  abi.window_label = record.window.c_str();
  try_each([&](const MetricSinkProxy& sink) { sink.write(abi); });
}

void SinkList::flush() {
  try_each([](const MetricSinkProxy& sink) { sink.flush(); });
}

long SinkList::num_lost() const {
  return std::accumulate(num_failures_.begin(), num_failures_.end(), 0L);
}

}  // namespace tenon
