// SPDX-License-Identifier: Apache-2.0
//
// A component of each kind that fails where it is told to (fault.hpp), and else does its work: a
// linear model of [B, 4], the mean of its squares as a loss.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/lr_scheduler.hpp>
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>
#include <tenon/torch/loss.hpp>
#include <tenon/torch/metric.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/optimizer.hpp>

#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fault.hpp"
#include "sample_values.hpp"

namespace {

// Multiplies by one, and may fail in a node of autograd, where no guard of the plugin's is near.
class FaultyGradient : public torch::autograd::Function<FaultyGradient> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& input,
                            int64_t fault) {
    context->saved_data["fault"] = fault;
    return input * 1;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    auto* const fault = reinterpret_cast<Fault*>(context->saved_data["fault"].toInt());
    fault->at("backward");
    return {grads[0], at::Tensor()};
  }
};

at::Tensor with_faulty_gradient(const at::Tensor& input, Fault& fault) {
  return FaultyGradient::apply(input, reinterpret_cast<int64_t>(&fault));
}

// What `how` makes of a result.
at::Tensor spoilt(const at::Tensor& good, const std::string& how) {
  if (how == "dtype") {
    return good.to(at::kLong);
  }
  if (how == "device") {
    return good.to(at::kMeta);
  }
  if (how == "vector") {
    return good.expand({3});
  }
  if (how == "columns") {
    return at::cat({good, good}, -1);
  }
  if (how == "rows") {
    return good.narrow(0, 0, 1);
  }
  return how == "nothing" ? at::Tensor() : good;
}

class Model : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: a linear model that goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Model(const Options& options) : fault_(options) { fault_.at("create"); }

  void describe(tenon::TorchGraph& g) override {
    const std::string how = fault_.at("describe");
    std::vector<int64_t> shape = {3, 4};
    if (how == "negative") {
      shape = {3, -4};
    } else if (how == "overflow") {
      shape = {int64_t{1} << 40, int64_t{1} << 40};
    } else if (how == "too large") {
      shape = {int64_t{1} << 22, int64_t{1} << 22};
    }
    const auto x = g.input("x", {"B", 4}, TENON_CLASS_COMPUTE);
    const auto weight = g.parameter("weight", shape, tenon::Init::normal(0, 0.5));
    g.block(
        "only", {x}, {g.value("logits", {"B", 3})}, {weight}, [this](const tenon::BlockCall& b) {
          const std::string spoil = fault_.at("forward");
          const at::Tensor out = at::linear(b.input(0), b.parameter(0));
          return spoilt(with_faulty_gradient(out, fault_), spoil);
        });
  }

 private:
  Fault fault_;
};

class Loss : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: the sum of squares, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Loss(const Options& options) : fault_(options) { fault_.at("create"); }

  void describe(tenon::LossInfo& info) override {
    fault_.at("describe");
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("y", {"B"}, TENON_CLASS_FLOAT)
        .additive_over(TENON_ADDITIVE_SAMPLES)
        .count_from_batch();
  }
  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const std::string how = fault_.at("count");
    return spoilt(at::scalar_tensor(static_cast<double>(inputs[1].size(0)), at::kDouble), how);
  }
  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    const std::string how = fault_.at("compute");
    return spoilt(with_faulty_gradient(inputs[0], fault_).square().sum(), how);
  }

 private:
  Fault fault_;
};

class LossByHand : public tenon::HandWrittenTorchLoss {
 public:
  static constexpr const char* kType = "faulty_by_hand";
  static constexpr const char* kSummary = "for tests: the sum of squares, with its own gradient";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit LossByHand(const Options& options) : fault_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("y", {"B"}, TENON_CLASS_FLOAT)
        .count_from_batch();
  }
  at::Tensor count(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return at::scalar_tensor(static_cast<double>(inputs[1].size(0)), at::kDouble);
  }
  at::Tensor compute(const tenon::Exec&, const tenon::TorchInputs& inputs) override {
    return inputs[0].square().sum();
  }
  std::vector<at::Tensor> backward(const tenon::Exec&,
                                   const tenon::TorchInputs& inputs,
                                   const at::Tensor& grad_sum) override {
    const std::string how = fault_.at("backward");
    return {spoilt(2 * inputs[0] * grad_sum, how), at::Tensor()};
  }

 private:
  Fault fault_;
};

struct RateAndFault : FaultOptions {
  double lr = 0.1;
};

class Optimizer : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: changes nothing, and goes wrong";
  using Options = RateAndFault;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).doc("the rate");
    bind_fault(binder);
  }

  explicit Optimizer(const Options& options) : fault_(options) { fault_.at("create"); }
  void describe(tenon::OptimizerInfo&) override { fault_.at("describe"); }
  void update(const tenon::Exec&, const tenon::TorchUpdate&) override { fault_.at("update"); }

 private:
  Fault fault_;
};

class Metric : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: counts, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Metric(const Options& options) : fault_(options) { fault_.at("create"); }
  void describe(tenon::MetricInfo& info) override {
    fault_.at("describe");
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .sum("rows")
        .metric("rows")
        .periods(TENON_PERIOD_STEP);
  }
  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    fault_.at("update");
    states[0].add_(static_cast<double>(inputs[0].size(0)));
  }
  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    fault_.at("compute");
    return {states[0].item<double>()};
  }

 private:
  Fault fault_;
};

class Sink : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: keeps nothing, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Sink(const Options& options) : fault_(options) { fault_.at("create"); }
  void open(const std::string&) override { fault_.at("open"); }
  void write(const tenon::MetricRecord&) override { fault_.at("write"); }
  void flush() override { fault_.at("flush"); }

 private:
  Fault fault_;
};

class Schedule : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: the constant 1, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Schedule(const Options& options) : fault_(options) { fault_.at("create"); }
  double factor(uint64_t, uint64_t) override {
    return fault_.at("factor") == "nan" ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  }

 private:
  Fault fault_;
};

class FaultyHook : public tenon::Hook {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: does nothing, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit FaultyHook(const Options& options) : fault_(options) { fault_.at("create"); }
  void describe(tenon_hook_info& info) override {
    fault_.at("describe");
    info.events = TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP);
  }
  void on_event(const tenon::Event&) override { fault_.at("on_event"); }

 private:
  Fault fault_;
};

class Dataset : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: as `windows`, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Dataset(const Options& options) : fault_(options) { fault_.at("create"); }
  void describe(tenon::DatasetInfo& info) override {
    const std::string how = fault_.at("describe");
    if (how == "nothing") {
      return;
    }
    fields_.declare(info);
  }
  int64_t size(const tenon_window*) override {
    const std::string how = fault_.at("size");
    return how == "negative" ? -7 : how == "zero" ? 0 : 24;
  }
  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const std::string how = fault_.at("read");
    if (how == "nothing") {
      return;
    }
    const size_t num_rows = how == "rows" ? n + 1 : n;
    std::vector<int64_t> ids(num_rows, 0);
    std::copy(indices, indices + n, ids.begin());
    fields_.write(ids, writer);
    if (how == "counts") {
      writer.set_counts(-1, -1);
    }
  }

 private:
  Fault fault_;
  SampleFields fields_{4, 3};
};

class Tokenizer : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "faulty";
  static constexpr const char* kSummary = "for tests: bytes, and goes wrong";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit Tokenizer(const Options& options) : fault_(options) { fault_.at("create"); }
  void describe(tenon_tokenizer_info& info) const override {
    const std::string how = fault_.at("describe");
    info.vocab_size = how == "negative" ? -1 : 256;
    info.bytes_per_token = 1;
  }
  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    const std::string how = fault_.at("encode");
    for (const char c : bytes) {
      const int32_t id = how == "ids" ? 1000000 : static_cast<unsigned char>(c);
      sink(&id, 1);
    }
  }
  void decode(const int32_t*, size_t, const tenon::BytesSink&) const override {}

 private:
  mutable Fault fault_;
};

}  // namespace

TENON_PLUGIN(
    Model, Loss, LossByHand, Optimizer, Metric, Sink, Schedule, FaultyHook, Dataset, Tokenizer)
