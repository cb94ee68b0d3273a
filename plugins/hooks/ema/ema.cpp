// SPDX-License-Identifier: Apache-2.0
//
// Keeps an exponential moving average of the parameters, for evaluation and export.
//
//     average = parameters                                       up to update `start`
//     average = decay average + (1 - decay) parameters           every `every` updates after it
//
// With `warm_up`, the decay of the n-th average is at most (1 + n) / (10 + n).
//
// Source: torch.optim.swa_utils.get_ema_multi_avg_fn of PyTorch 2.11; the warm-up is that of
// TensorFlow's ExponentialMovingAverage(num_updates).
#include <tenon/cpp/parameter_average.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/tensor.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace {

struct EmaOptions {
  double decay = 0.999;
  int64_t start = 1;
  int64_t every = 1;
  bool warm_up = false;
};

class Ema : public tenon::Hook, public tenon::ParameterAverage {
 public:
  static constexpr const char* kType = "ema";
  static constexpr const char* kSummary =
      "evaluates and exports an exponential moving average of the parameters";
  using Options = EmaOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("decay", &Options::decay)
        .min(0)
        .exclusive_max(1)
        .doc("weight of the previous average; 0: the average is the last parameters");
    binder.field("start", &Options::start)
        .min(1)
        .doc("update whose parameters start the average; earlier ones are not averaged");
    binder.field("every", &Options::every).min(1).doc("average every N updates");
    binder.field("warm_up", &Options::warm_up)
        .doc("limit the decay of the n-th average to (1 + n) / (10 + n)");
  }

  explicit Ema(const Options& options) : options_(options) {}

  // The host calls on_update, so the hook needs no events.
  void describe(tenon_hook_info& info) override { info.events = 0; }
  void on_event(const tenon::Event&) override {}

  void on_update(const tenon::Exec&, const tenon_parameter_average_args& args) override {
    const int64_t since = static_cast<int64_t>(args.num_updates) - options_.start;
    if (since > 0 && since % options_.every != 0) {
      return;
    }
    for (size_t i = 0; i < args.num_pieces; ++i) {
      at::Tensor& average = tenon::unwrap_mutable(args.averages[i]);
      const at::Tensor& parameter = tenon::unwrap(args.parameters[i]);
      if (since <= 0) {
        average.copy_(parameter);
      } else {
        average.lerp_(parameter.to(average.scalar_type()), 1 - decay(since / options_.every));
      }
    }
  }

  const void* extension(const char* id) override {
    return tenon::ParameterAverageCalls<Ema>::find(id);
  }

 private:
  // Of the n-th average, from 1.
  double decay(int64_t n) const {
    const auto count = static_cast<double>(n);
    return options_.warm_up ? std::min(options_.decay, (1 + count) / (10 + count)) : options_.decay;
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Ema)
