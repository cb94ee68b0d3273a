// SPDX-License-Identifier: Apache-2.0
//
// Metrics without libtorch. Those with it derive from TorchMetric (tenon/torch/metric.hpp). The
// host owns what a metric has gathered: `update` changes the states it is given, `compute` reads
// them.
#ifndef TENON_CPP_METRIC_HPP
#define TENON_CPP_METRIC_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
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

namespace tenon {

/* What a metric says of itself; the calls chain. */
class MetricInfo {
 public:
  /* An input, which `update` gets in the order of these calls. `dtype` is a dtype or a class. */
  MetricInfo& port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, 0);
    return *this;
  }
  /* The same, absent where the batch does not have it. */
  MetricInfo& optional_port(std::string name, Axes axes, uint32_t dtype) {
    ports_.add(std::move(name), std::move(axes), dtype, TENON_PORT_OPTIONAL);
    return *this;
  }
  /* A sum in fp64, which starts at 0: states are numbered in the order of these calls and those of
   * `state`. */
  MetricInfo& sum(std::string name, std::vector<int64_t> shape = {}) {
    return state(std::move(name), std::move(shape), TENON_F64, TENON_REDUCE_SUM);
  }
  /* Any other state. `reduce` is TENON_REDUCE_*; one of CONCAT has 0 as its first size. */
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
  /* A figure, which `compute` gives in the order of these calls: letters, digits and "_/.-". */
  MetricInfo& figure(std::string name) {
    names_.push_back(std::move(name));
    figures_.push_back(names_.back().c_str());
    return *this;
  }
  /* TENON_PERIOD_*: since when it is to count in training; not there unless said. */
  MetricInfo& periods(uint32_t periods) {
    periods_ = periods;
    return *this;
  }

  size_t num_states() const { return states_.size(); }
  size_t num_figures() const { return figures_.size(); }
  void write(tenon_metric_info& out) const {
    out.periods = periods_;
    out.ports_ref = ports_.data();
    out.num_ports = ports_.size();
    out.states_ref = states_.data();
    out.num_states = states_.size();
    out.figures_ref = figures_.data();
    out.num_figures = figures_.size();
  }

 private:
  PortList ports_;
  std::deque<std::string> names_;
  std::deque<std::vector<int64_t>> shapes_;
  std::vector<tenon_metric_state_spec> states_;
  std::vector<const char*> figures_;
  uint32_t periods_ = 0;
};

/* What the table calls; derive from Metric or TorchMetric instead. */
class AnyMetric : public Component {
 public:
  using Kind = AnyMetric;
  static constexpr const char* kKind = "metric";
  static constexpr const char* kInterfaceId = TENON_METRIC_ID;

  /* Threads [main], once */
  virtual void describe(MetricInfo& info) = 0;

  virtual void call_update(const Exec&,
                           const TensorList&,
                           tenon_tensor* const* states,
                           tenon_tensor** appended_own) = 0;
  virtual void call_merge(const Exec&,
                          tenon_tensor* const* states,
                          const tenon_tensor* const* others) = 0;
  virtual std::vector<double> call_compute(const Exec&, const TensorList& states) = 0;
  virtual void call_reset(const Exec&, tenon_tensor* const* states) = 0;

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
               "a state is declared TENON_REDUCE_OWN, but the metric has no merge of its own");
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
                                 const tenon_tensor* const* inputs,
                                 size_t num_inputs,
                                 tenon_tensor* const* states,
                                 tenon_tensor** appended_own) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(inputs != nullptr && states != nullptr && appended_own != nullptr,
                  "an argument of update is null");
      metric.call_update(Exec(metric.host(), exec),
                         TensorList(metric.host(), inputs, num_inputs),
                         states,
                         appended_own);
    });
  }
  static tenon_status* on_merge(void* self,
                                const tenon_exec* exec,
                                tenon_tensor* const* states,
                                const tenon_tensor* const* others) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(states != nullptr && others != nullptr, "an argument of merge is null");
      metric.call_merge(Exec(metric.host(), exec), states, others);
    });
  }
  static tenon_status* on_compute(void* self,
                                  const tenon_exec* exec,
                                  const tenon_tensor* const* states,
                                  double* out) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(states != nullptr && out != nullptr, "an argument of compute is null");
      const std::vector<double> figures = metric.call_compute(
          Exec(metric.host(), exec), TensorList(metric.host(), states, metric.num_states()));
      const size_t num_figures = metric.info_ == nullptr ? 0 : metric.info_->num_figures();
      TENON_CHECK(figures.size() == num_figures,
                  "compute gave ",
                  figures.size(),
                  " figures, declared are ",
                  num_figures);
      std::copy(figures.begin(), figures.end(), out);
    });
  }
  static tenon_status* on_reset(void* self,
                                const tenon_exec* exec,
                                tenon_tensor* const* states) noexcept {
    return call_on<AnyMetric>(self, [&](AnyMetric& metric) {
      TENON_CHECK(states != nullptr, "an argument of reset is null");
      metric.call_reset(Exec(metric.host(), exec), states);
    });
  }

  std::unique_ptr<MetricInfo> info_;
};

/* The states of a call, borrowed, in the order that `describe` gave. */
class MetricStates {
 public:
  MetricStates(const Host& host,
               tenon_tensor* const* handles,
               size_t size,
               tenon_tensor** appended_own = nullptr)
      : host_(&host), handles_(handles), size_(size), appended_own_(appended_own) {}
  size_t size() const { return size_; }
  /* To be changed in place (`mutable_data`); absent for a state of CONCAT. */
  TensorRef operator[](size_t i) const {
    TENON_CHECK(i < size_, "there are ", size_, " states, asked for was number ", i);
    return {*host_, handles_[i]};
  }
  /* New rows of a state of CONCAT; once a call of `update`. */
  void append(size_t i, Tensor rows) {
    TENON_CHECK(appended_own_ != nullptr && i < size_ && appended_own_[i] == nullptr,
                "state number ",
                i,
                " cannot be appended to here");
    appended_own_[i] = rows.release();
  }

 private:
  const Host* host_;
  tenon_tensor* const* handles_;
  size_t size_;
  tenon_tensor** appended_own_;
};

class Metric : public AnyMetric {
 public:
  /* Takes one microbatch into the states; not recorded by autograd.  Threads [step] */
  virtual void update(const Exec& exec, const TensorList& inputs, MetricStates& states) = 0;
  /* The figures of these states, in the order of `describe`; NaN where there is no data.
   * Threads [step], on rank 0 alone */
  virtual std::vector<double> compute(const Exec& exec, const TensorList& states) = 0;
  /* Merges what comes next into `states`: those of TENON_REDUCE_OWN, the others are absent.
   * Threads [step] */
  virtual void merge(const Exec& /*exec*/, MetricStates& /*states*/, const TensorList& /*others*/) {
    fail_without_merge();
  }
  /* Changes states at their start, where their `init` does not say it all.  Threads [step] */
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

}  // namespace tenon

#endif
