// SPDX-License-Identifier: Apache-2.0
//
// Stochastic gradient descent with momentum.
//
// A parameter's first update sets the running sum to the gradient itself, undampened.
//
// Source: Sutskever et al., On the importance of initialization and momentum in deep learning (ICML
// 2013), in the form that PyTorch documents for its SGD.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/optimizer.hpp>

#include "../lr_option.hpp"

namespace {

struct SgdOptions : LrOptions {
  SgdOptions() { lr = 1e-2; }

  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
};

class Sgd : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "sgd";
  static constexpr const char* kSummary = "stochastic gradient descent with optional momentum";
  using Options = SgdOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("momentum", &Options::momentum)
        .min(0)
        .exclusive_max(1)
        .doc("decay factor of the running sum of gradients; 0: no momentum");
    binder.field("dampening", &Options::dampening)
        .min(0)
        .max(1)
        .doc(
            "fraction of each gradient excluded from the running sum, except for the first "
            "gradient");
    binder.field("nesterov", &Options::nesterov)
        .doc("Nesterov momentum; requires momentum above 0 and dampening 0");
    bind_l2_decay(binder);
  }

  explicit Sgd(const Options& options) : options_(options) {
    TENON_CHECK(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                "`nesterov` requires `momentum` above 0 and `dampening` 0, found ",
                options.momentum,
                " and ",
                options.dampening);
    TENON_CHECK(options.dampening == 0 || options.momentum > 0,
                "`dampening` is ",
                options.dampening,
                " but `momentum` is 0; set `momentum` or remove `dampening`");
  }

  void describe(tenon::OptimizerInfo& info) override {
    if (options_.momentum > 0) {
      info.slot("momentum_buffer");
    }
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    tenon::ops::sgd_({update.parameters, update.grads, update.steps, update.lr, update.found_inf},
                     options_.momentum > 0 ? at::TensorList(update.slots[0]) : at::TensorList(),
                     {.momentum = options_.momentum,
                      .dampening = options_.dampening,
                      .nesterov = options_.nesterov,
                      .weight_decay = options_.weight_decay});
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Sgd)
