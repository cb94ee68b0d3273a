// SPDX-License-Identifier: Apache-2.0
//
// Adagrad on the host's operator: a learning rate per element, which decreases with its sum of
// squared gradients.
//
// Source: Duchi, Hazan, Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization (JMLR 2011), in the form that PyTorch documents for its Adagrad.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/optimizer.hpp>

#include "../lr_option.hpp"

namespace {

struct AdagradOptions : LrOptions {
  AdagradOptions() { lr = 1e-2; }

  double lr_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
};

class Adagrad : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "adagrad";
  static constexpr const char* kSummary =
      "Adagrad: per-element learning rates from sums of squared gradients";
  using Options = AdagradOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("lr_decay", &Options::lr_decay)
        .min(0)
        .doc("learning rate decay: update n, from 1, divides lr by 1 + (n - 1) * lr_decay");
    binder.field("initial_accumulator_value", &Options::initial_accumulator_value)
        .min(0)
        .doc("initial value of the sums of squares");
    binder.field("eps", &Options::eps).min(0).doc("added to the square root of the sum of squares");
    bind_l2_decay(binder);
  }

  explicit Adagrad(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override {
    info.slot("sum", TENON_CLASS_PARAM, options_.initial_accumulator_value);
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    tenon::ops::adagrad_(
        {update.parameters, update.grads, update.steps, update.lr, update.found_inf},
        update.slots[0],
        {.lr_decay = options_.lr_decay,
         .eps = options_.eps,
         .weight_decay = options_.weight_decay});
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Adagrad)
