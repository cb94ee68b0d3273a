// SPDX-License-Identifier: Apache-2.0
//
// Shared by Adam and AdamW: options, optimizer state, and the call of the host's operator. The two
// differ in the weight decay.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1;
// amsgrad: Reddi, Kale, Kumar, On the Convergence of Adam and Beyond (ICLR 2018), algorithm 2.
#pragma once

#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/ops.hpp>
#include <tenon/torch/optimizer.hpp>

#include <vector>

#include "lr_option.hpp"

struct AdamOptions : LrOptions {
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool amsgrad = false;
};

// Binds all options except `lr` and `weight_decay`.
template <class O>
void bind_adam(tenon::OptionBinder<O>& binder) {
  binder.field("betas", &O::betas)
      .min(0)
      .exclusive_max(1)
      .min_items(2)
      .max_items(2)
      .doc("decay factors of the running means of gradient and squared gradient");
  binder.field("eps", &O::eps).min(0).doc("added to the square root of the mean square");
  binder.field("amsgrad", &O::amsgrad)
      .doc("divide by the largest mean square so far instead of the current one");
}

enum class Decay { kL2, kDecoupled };

template <Decay kDecay>
class FusedAdam : public tenon::TorchOptimizer {
 public:
  explicit FusedAdam(const AdamOptions& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override {
    info.slot("exp_avg").slot("exp_avg_sq");
    if (options_.amsgrad) {
      info.slot("max_exp_avg_sq");
    }
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    tenon::ops::adam_({update.parameters, update.grads, update.steps, update.lr, update.found_inf},
                      update.slots[0],
                      update.slots[1],
                      options_.amsgrad ? at::TensorList(update.slots[2]) : at::TensorList(),
                      {.beta1 = options_.betas[0],
                       .beta2 = options_.betas[1],
                       .eps = options_.eps,
                       .weight_decay = options_.weight_decay,
                       .decoupled_decay = kDecay == Decay::kDecoupled});
  }

 private:
  AdamOptions options_;
};
