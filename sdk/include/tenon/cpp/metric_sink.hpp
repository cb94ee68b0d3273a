// SPDX-License-Identifier: Apache-2.0
//
// Metric sinks: destinations for a run's metrics. <tenon/metric_sink.h> defines the contract.
#ifndef TENON_CPP_METRIC_SINK_HPP
#define TENON_CPP_METRIC_SINK_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/metric_sink.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

TENON_NAMESPACE_BEGIN

/* One record. Borrowed until `write` returns. */
class MetricRecord {
 public:
  explicit MetricRecord(const tenon_metric_record* record) : record_(record) {}
  /* From 1; 0 before the first step. */
  uint64_t step() const { return record_->step; }
  /* Time of the record, in seconds since 1970 UTC. */
  double unix_seconds() const { return record_->unix_seconds; }
  size_t size() const { return record_->count; }
  /* Name of value i, for example "eval/loss"; i < size(). */
  std::string_view name(size_t i) const { return record_->names[i]; }
  /* May be NaN or infinite. */
  double value(size_t i) const { return record_->values[i]; }
  /* Label of the record's training window; "" if the dataset has no windows. */
  std::string_view window_label() const {
    const bool has_label =
        TENON_HAS(tenon_metric_record, record_, window_label) && record_->window_label != nullptr;
    return has_label ? record_->window_label : "";
  }

 private:
  const tenon_metric_record* record_;
};

/* Base class of metric sinks. Only rank 0 has sinks. */
class MetricSink : public Component {
 public:
  using Kind = MetricSink;
  static constexpr const char* kKind = "metric_sink";
  static constexpr const char* kInterfaceId = TENON_METRIC_SINK_ID;

  /* Opens the sink. `run_dir` is the run directory, which exists.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void open(const std::string& run_dir) = 0;
  /* Writes one record.
   *
   * Errors   an exception is logged and counted; the run continues
   * Threads  [step]
   * Owner    the record is borrowed until return */
  virtual void write(const MetricRecord& record) = 0;
  /* Flushes: everything written so far reaches the file system.
   *
   * Errors   an exception is logged and counted; the run continues
   * Threads  [step] */
  virtual void flush() = 0;
  /* Prepares for a resumed or rolled-back run, which repeats the steps after `step`. Drops the
   * records of later steps, and of `step` itself all but the first `records_of_step`. By default
   * nothing is dropped.
   *
   * Errors   any exception ends the run
   * Threads  [step], after `open`, between two writes */
  virtual void resume(uint64_t step, uint64_t records_of_step) {
    (void)step;
    (void)records_of_step;
  }

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_metric_sink calls{
        sizeof(tenon_metric_sink), on_open, on_write, on_flush, on_resume};
    return &calls;
  }

 private:
  static tenon_status* on_open(void* self, const char* run_dir) noexcept {
    return call_on<MetricSink>(self, [&](MetricSink& sink) {
      TENON_CHECK(run_dir != nullptr, "run_dir is null");
      sink.open(run_dir);
    });
  }
  static tenon_status* on_write(void* self, const tenon_metric_record* record) noexcept {
    return call_on<MetricSink>(self, [&](MetricSink& sink) {
      TENON_CHECK(record != nullptr, "the record is null");
      sink.write(MetricRecord(record));
    });
  }
  static tenon_status* on_flush(void* self) noexcept {
    return call_on<MetricSink>(self, [](MetricSink& sink) { sink.flush(); });
  }
  static tenon_status* on_resume(void* self, uint64_t step, uint64_t records_of_step) noexcept {
    return call_on<MetricSink>(self, [&](MetricSink& sink) { sink.resume(step, records_of_step); });
  }
};

TENON_NAMESPACE_END

#endif
