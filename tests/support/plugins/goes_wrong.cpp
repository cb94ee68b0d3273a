// SPDX-License-Identifier: Apache-2.0
//
// A model and a loss that are right but for some steps, in which one thing of theirs is NaN.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/loss.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum Part : uint32_t { kNothing, kOutput, kGradient, kValue, kCount };

struct WrongOptions {
  uint64_t first_step = 1;
  uint64_t last_step = 1;
  uint32_t part = kNothing;

  bool covers(const tenon::Exec& exec, Part asked) const {
    return part == asked && exec.is_train() && exec.step() >= first_step &&
           exec.step() <= last_step;
  }
  static void bind_steps(tenon::OptionBinder<WrongOptions>& binder) {
    binder.field("first_step", &WrongOptions::first_step).min(0).doc("the first wrong step");
    binder.field("last_step", &WrongOptions::last_step).min(0).doc("the last wrong step");
  }
};

// Two layers; the first one also keeps a running mean of what it is given.
class WrongNet final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "wrong_net";
  static constexpr const char* kSummary = "Test: a model that is NaN in some steps";
  using Options = WrongOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    Options::bind_steps(binder);
    binder
        .choice("part",
                &Options::part,
                {{"nothing", uint32_t{kNothing}},
                 {"output", uint32_t{kOutput}},
                 {"gradient", uint32_t{kGradient}}})
        .doc("what is NaN in the first block");
  }

  explicit WrongNet(const Options& options) : options_(options) {}

  void describe(tenon::TorchGraph& g) override {
    const auto x = g.input("x", {"B", 4}, TENON_CLASS_COMPUTE);
    const auto h = g.value("h", {"B", 8});
    const auto first = g.parameter("first.weight", {8, 4}, tenon::Init::normal(0, 0.5));
    const auto mean = g.state("mean", {}, TENON_F32, [](at::Tensor& t) { t.zero_(); });
    g.block("first", {x}, {h}, {first}, [this](const tenon::BlockCall& b) {
       b.set_next_buffer(0, b.buffer(0) * 0.9 + b.input(0).mean().to(at::kFloat) * 0.1);
       at::Tensor out = at::tanh(at::linear(b.input(0), b.parameter(0)));
       if (options_.covers(b.exec(), kOutput)) {
         out = out * kNan;
       } else if (options_.covers(b.exec(), kGradient)) {
         out = out + at::sqrt(out * 0);  // 0, and its gradient is 0 times infinity
       }
       return out;
     }).buffers({mean});
    const auto second = g.parameter("second.weight", {3, 8}, tenon::Init::normal(0, 0.5));
    g.block("second", {h}, {g.value("logits", {"B", 3})}, {second}, [](const tenon::BlockCall& b) {
      return at::linear(b.input(0), b.parameter(0));
    });
  }

 private:
  Options options_;
};

// Cross-entropy, whose gradient is always finite.
class WrongLoss final : public tenon::TorchLoss {
 public:
  static constexpr const char* kType = "wrong_loss";
  static constexpr const char* kSummary = "Test: a loss that is NaN in some steps";
  using Options = WrongOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    Options::bind_steps(binder);
    binder
        .choice("part",
                &Options::part,
                {{"nothing", uint32_t{kNothing}},
                 {"value", uint32_t{kValue}},
                 {"count", uint32_t{kCount}}})
        .doc("what is NaN");
  }

  explicit WrongLoss(const Options& options) : options_(options) {}

  void describe(tenon::LossInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {}, TENON_I64)
        .additive_over(TENON_ADDITIVE_TOKENS)
        .count_from_batch();
  }

  at::Tensor count(const tenon::Exec& exec, const tenon::TorchInputs& inputs) override {
    const double n = static_cast<double>(inputs[1].numel());
    return at::full(
        {}, options_.covers(exec, kCount) ? kNan : n, inputs[1].options().dtype(at::kDouble));
  }

  at::Tensor compute(const tenon::Exec& exec, const tenon::TorchInputs& inputs) override {
    const at::Tensor sum = at::cross_entropy_loss(inputs[0], inputs[1], {}, at::Reduction::Sum);
    return options_.covers(exec, kValue) ? sum + kNan : sum;
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(WrongNet, WrongLoss)
