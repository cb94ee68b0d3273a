// SPDX-License-Identifier: Apache-2.0
//
// Metrics without libtorch. For metrics on at::Tensor, derive from TorchMetric
// (tenon/torch/metric.hpp). The host owns the state of a metric: `update` changes the state tensors
// it receives, `compute` reads them. <tenon/metric.h> defines the contract.
#ifndef TENON_CPP_METRIC_HPP
#define TENON_CPP_METRIC_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/ports.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/metric.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Describes a metric; the calls chain. */
class MetricInfo {
 public:
  /* Declares an input. `update` receives inputs in declaration order. `dtype` is a dtype or a
   * class; empty `axes` mean any shape. */
  MetricInfo& port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, 0);
    return *this;
  }
  /* Declares an input that is absent if nothing provides it. */
  MetricInfo& optional_port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, TENON_PORT_OPTIONAL);
    return *this;
  }
  /* Declares a state that is summed, in fp64, initially 0. States are numbered in the order of the
   * calls to `sum` and `state`, from 0. */
  MetricInfo& sum(std::string name, std::vector<int64_t> shape = {}) {
    return state(std::move(name), std::move(shape), TENON_F64, TENON_REDUCE_SUM);
  }
  /* Declares any other state. `reduce` is TENON_REDUCE_*; the first size of a CONCAT state is 0;
   * `init` is the initial value of every element. */
  MetricInfo& state(std::string name,
                    std::vector<int64_t> shape,
                    uint32_t dtype,
                    uint32_t reduce,
                    double init = 0.0) {
    names_.push_back(std::move(name));
    shapes_.push_back(std::move(shape));
    states_.push_back({sizeof(tenon_metric_state_spec),
                       names_.back().c_str(),
                       shapes_.back().data(),
                       shapes_.back().size(),
                       dtype,
                       reduce,
                       init});
    return *this;
  }
  /* Declares a value of the metric. `compute` returns values in declaration order. Names use
   * letters, digits and "_/.-". */
  MetricInfo& metric(std::string name) {
    names_.push_back(std::move(name));
    metrics_.push_back(names_.back().c_str());
    return *this;
  }
  /* Sets the periods over which the metric is reported in training, TENON_PERIOD_*; the default is
   * none. */
  MetricInfo& periods(uint32_t periods) {
    periods_ = periods;
    return *this;
  }

  size_t num_states() const { return states_.size(); }
  /* Fills the ABI struct. For the wrapper only. */
  void write(tenon_metric_info& out) const {
    out.periods = periods_;
    out.ports_ref = ports_.data();
    out.num_ports = ports_.size();
    out.states_ref = states_.data();
    out.num_states = states_.size();
    out.metrics_ref = metrics_.data();
    out.num_metrics = metrics_.size();
  }

 private:
  PortList ports_;
  std::deque<std::string> names_;
  std::deque<std::vector<int64_t>> shapes_;
  std::vector<tenon_metric_state_spec> states_;
  std::vector<const char*> metrics_;
  uint32_t periods_ = 0;
};

/* Base of all metrics, called through the ABI table. Derive from Metric or TorchMetric. */
class AnyMetric : public Component {
 public:
  using Kind = AnyMetric;
  static constexpr const char* kKind = "metric";
  static constexpr const char* kInterfaceId = TENON_METRIC_ID;

  /* Describes inputs, states and values of the metric.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void describe(MetricInfo& info) = 0;

  /* Adapters from ABI handles to `update`, `merge`, `compute` and `reset` of the derived class,
   * which states Errors, Threads and Owner. For the wrapper only. */
  virtual void call_update(const Exec&,
                           const TensorList&,
                           tenon_tensor* const* states,
                           tenon_tensor** appended_own) = 0;
  virtual void call_merge(const Exec&,
                          tenon_tensor* const* states,
                          const tenon_tensor* const* others) = 0;
  virtual std::vector<double> call_compute(const Exec&, const TensorList& states) = 0;
  virtual void call_reset(const Exec&, tenon_tensor* const* states) = 0;

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_metric calls{
        sizeof(tenon_metric), on_describe, on_update, on_merge, on_compute, on_reset};
    return &calls;
  }

 protected:
  size_t num_states() const { return info_ == nullptr ? 0 : info_->num_states(); }

  [[noreturn]] static void fail_without_merge() {
    TENON_FAIL(TENON_UNSUPPORTED,
               "no_merge",
               "a state is declared TENON_REDUCE_OWN, but the metric does not override merge");
  }

 private:
  static tenon_status* on_describe(void* self, tenon_metric_info* out) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(out != nullptr, "out is null");
      metric.info_ = std::make_unique<MetricInfo>();
      metric.describe(*metric.info_);
      metric.info_->write(*out);
    });
  }
  static tenon_status* on_update(void* self,
                                 const tenon_exec* exec,
                                 const tenon_metric_update_args* args) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(args != nullptr && (args->inputs != nullptr || args->num_inputs == 0) &&
                      (args->states != nullptr || args->num_states == 0) &&
                      (args->appended_own != nullptr || args->num_states == 0),
                  "an argument of update is null");
      metric.check_states(args->num_states);
      metric.call_update(Exec(metric.host(), exec),
                         TensorList(metric.host(), args->inputs, args->num_inputs),
                         args->states,
                         args->appended_own);
    });
  }
  static tenon_status* on_merge(void* self,
                                const tenon_exec* exec,
                                const tenon_metric_merge_args* args) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(args != nullptr && ((args->states != nullptr && args->others != nullptr) ||
                                      args->num_states == 0),
                  "an argument of merge is null");
      metric.check_states(args->num_states);
      metric.call_merge(Exec(metric.host(), exec), args->states, args->others);
    });
  }
  static tenon_status* on_compute(void* self,
                                  const tenon_exec* exec,
                                  const tenon_metric_compute_args* args) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(args != nullptr && (args->states != nullptr || args->num_states == 0) &&
                      (args->out_values != nullptr || args->num_metrics == 0),
                  "an argument of compute is null");
      metric.check_states(args->num_states);
      const std::vector<double> metrics = metric.call_compute(
          Exec(metric.host(), exec), TensorList(metric.host(), args->states, args->num_states));
      TENON_CHECK(metrics.size() == args->num_metrics,
                  "compute returned ",
                  metrics.size(),
                  " values (expected ",
                  args->num_metrics,
                  ", as declared)");
      std::copy(metrics.begin(), metrics.end(), args->out_values);
    });
  }
  static tenon_status* on_reset(void* self,
                                const tenon_exec* exec,
                                const tenon_metric_reset_args* args) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(args != nullptr && (args->states != nullptr || args->num_states == 0),
                  "an argument of reset is null");
      metric.check_states(args->num_states);
      metric.call_reset(Exec(metric.host(), exec), args->states);
    });
  }
  // The number of states of a call, which the adapters use as declared.
  void check_states(size_t n) const {
    TENON_CHECK(n == num_states(),
                "the call has ",
                n,
                " states (expected ",
                num_states(),
                ", as declared)");
  }

  std::unique_ptr<MetricInfo> info_;
};

/* The states of a call, in declaration order.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the call, and only during it
 * Owner    borrowed until the call returns */
class MetricStates {
 public:
  MetricStates(const Host& host,
               tenon_tensor* const* handles,
               size_t size,
               tenon_tensor** appended_own = nullptr)
      : host_(&host), handles_(handles), size_(size), appended_own_(appended_own) {}
  size_t size() const { return size_; }
  /* Returns state i, to be changed in place (`mutable_data`); absent for a CONCAT state. */
  TensorRef operator[](size_t i) const {
    TENON_CHECK(
        i < size_, "state index ", i, " is out of range (the metric has ", size_, " states)");
    return {*host_, handles_[i]};
  }
  /* Appends rows to CONCAT state i; at most once per `update`.
   *
   * Errors   TENON_INVALID for any other state or call */
  void append(size_t i, Tensor rows) {
    TENON_CHECK(appended_own_ != nullptr && i < size_ && appended_own_[i] == nullptr,
                "cannot append rows to state ",
                i,
                ": not a CONCAT state, already appended, or not in update");
    appended_own_[i] = rows.release();
  }

 private:
  const Host* host_;
  tenon_tensor* const* handles_;
  size_t size_;
  tenon_tensor** appended_own_;
};

/* A metric without libtorch. */
class Metric : public AnyMetric {
 public:
  /* Adds one microbatch to the states. Autograd never records it. It must not wait for the device.
   *
   * Shapes   inputs in the order of the ports; absent if optional and not provided
   * Errors   TENON_INVALID if shapes do not match
   * Threads  [step]
   * Owner    inputs and states are borrowed until return */
  virtual void update(const Exec& exec, const TensorList& inputs, MetricStates& states) = 0;
  /* Computes the metric's values from the merged states, in declaration order. It may wait for the
   * device.
   *
   * Units    natural units, for example 0.97 for 97%; NaN if there is no data
   * Errors   any exception ends the run
   * Threads  [step], on rank 0 only
   * Owner    states are borrowed until return */
  virtual std::vector<double> compute(const Exec& exec, const TensorList& states) = 0;
  /* Merges the states of the next rank or data range into `states`, in place. Only TENON_REDUCE_OWN
   * states are present. The operation must be associative; `states` is the left operand.
   *
   * Errors   any exception ends the run; by default TENON_UNSUPPORTED
   * Threads  [step]
   * Owner    all arguments are borrowed until return */
  virtual void merge(const Exec& /*exec*/, MetricStates& /*states*/, const TensorList& /*others*/) {
    fail_without_merge();
  }
  /* Resets states that need more than their `init` value, which they already hold.
   *
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    states are borrowed until return */
  virtual void reset(const Exec& /*exec*/, MetricStates& /*states*/) {}

 private:
  void call_update(const Exec& exec,
                   const TensorList& inputs,
                   tenon_tensor* const* states,
                   tenon_tensor** appended_own) override {
    MetricStates list(exec.host(), states, num_states(), appended_own);
    update(exec, inputs, list);
  }
  void call_merge(const Exec& exec,
                  tenon_tensor* const* states,
                  const tenon_tensor* const* others) override {
    MetricStates list(exec.host(), states, num_states());
    merge(exec, list, TensorList(exec.host(), others, num_states()));
  }
  std::vector<double> call_compute(const Exec& exec, const TensorList& states) override {
    return compute(exec, states);
  }
  void call_reset(const Exec& exec, tenon_tensor* const* states) override {
    MetricStates list(exec.host(), states, num_states());
    reset(exec, list);
  }
};

TENON_NAMESPACE_END

#endif
