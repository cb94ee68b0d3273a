// SPDX-License-Identifier: Apache-2.0
//
// AdamW on libtorch's fused kernel, which takes the step as already counted, as the host gives it.
// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (ICLR 2019), algorithm 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/optimizer.hpp>

#include <ATen/ATen.h>

#include <vector>

namespace {

struct AdamWOptions {
  double lr = 1e-3;  // the host's: it arrives with each update
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
};

class AdamW : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "adamw";
  static constexpr const char* kSummary = "Adam with decoupled weight decay";
  using Options = AdamWOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).min(0).doc("the rate, which the schedule multiplies");
    binder.field("betas", &Options::betas)
        .min(0)
        .exclusive_max(1)
        .min_items(2)
        .max_items(2)
        .doc("how much of the running means of gradient and square is kept in a step");
    binder.field("eps", &Options::eps).min(0).doc("added to the root of the mean square");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc("share of a parameter that a step takes away, times the rate");
  }

  explicit AdamW(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override { info.slot("exp_avg").slot("exp_avg_sq"); }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    if (update.lr.is_cpu()) {
      // As a number, since a tensor would be read as fp32 by some versions of the kernel.
      run(update, update.lr.item<double>());
    } else {
      run(update, update.lr.to(at::kFloat));
    }
  }

 private:
  template <class Rate>
  void run(const tenon::TorchUpdate& update, const Rate& lr) const {
    at::_fused_adamw_(update.parameters,
                      update.grads,
                      update.slots[0],
                      update.slots[1],
                      /*max_exp_avg_sqs=*/{},
                      update.steps,
                      lr,
                      options_.betas[0],
                      options_.betas[1],
                      options_.weight_decay,
                      options_.eps,
                      /*amsgrad=*/false,
                      /*maximize=*/false,
                      /*grad_scale=*/{},
                      update.found_inf);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(AdamW)
