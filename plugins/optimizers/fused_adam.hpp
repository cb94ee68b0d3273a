// SPDX-License-Identifier: Apache-2.0
//
// Shared by Adam and AdamW: options, optimizer state, and the call of libtorch's fused kernel. The
// kernel expects the step already incremented, as the host passes it. The two differ in the weight
// decay.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1;
// amsgrad: Reddi, Kale, Kumar, On the Convergence of Adam and Beyond (ICLR 2018), algorithm 2.
#pragma once

#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/optimizer.hpp>

#include <ATen/ATen.h>

#include <optional>
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
    if (update.lr.is_cpu()) {
      // Passed as a number: some versions of the kernel read a tensor as fp32.
      run(update, update.lr.item<double>());
    } else {
      run(update, update.lr.to(at::kFloat));
    }
  }

 private:
  template <class Rate>
  void run(const tenon::TorchUpdate& update, const Rate& lr) const {
    const auto apply = [&](auto kernel) {
      kernel(update.parameters,
             update.grads,
             update.slots[0],
             update.slots[1],
             options_.amsgrad ? at::TensorList(update.slots[2]) : at::TensorList(),
             update.steps,
             lr,
             options_.betas[0],
             options_.betas[1],
             options_.weight_decay,
             options_.eps,
             options_.amsgrad,
             /*maximize=*/false,
             /*grad_scale=*/std::nullopt,
             update.found_inf);
    };
    if constexpr (kDecay == Decay::kDecoupled) {
      apply([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      apply([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    }
  }

  AdamOptions options_;
};
