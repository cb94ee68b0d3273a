// SPDX-License-Identifier: Apache-2.0
//
// Lion: moves each parameter by the sign of an interpolated momentum.
//
// Source: Chen et al., Symbolic Discovery of Optimization Algorithms (NeurIPS 2023), algorithm 2.
#include <tenon/cpp/plugin.hpp>

#include <vector>

#include "../by_operators.hpp"
#include "../lr_option.hpp"

namespace {

struct LionOptions : LrOptions {
  LionOptions() { lr = 1e-4; }

  std::vector<double> betas = {0.9, 0.99};
};

class Lion : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "lion";
  static constexpr const char* kSummary = "Lion: the sign of an interpolated momentum";
  using Options = LionOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("betas", &Options::betas)
        .min(0)
        .max(1)
        .min_items(2)
        .max_items(2)
        .doc("weight of the momentum in the update, and its decay factor");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay, multiplied by lr; not applied to parameters that the model "
            "exempts (norms, biases)");
  }

  explicit Lion(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override { info.slot("exp_avg"); }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    if (is_skipped(update)) {
      return;
    }
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      for_each_chunk(update.parameters[i], [&](int64_t begin, int64_t length) {
        move(update,
             part_of(update.parameters[i], begin, length),
             part_of(update.grads[i], begin, length),
             part_of(update.slots[0][i], begin, length));
      });
    }
  }

 private:
  void move(const tenon::TorchUpdate& update,
            const at::Tensor& parameter,
            const at::Tensor& narrow_grad,
            const at::Tensor& slot) const {
    const at::Tensor grad = widened(narrow_grad);
    const at::Tensor momentum = widened(slot);
    const at::Tensor direction =
        (momentum * options_.betas[0]).add_(grad, 1 - options_.betas[0]).sgn_();
    const at::Tensor value = widened(parameter) * (1 - update.lr * options_.weight_decay);
    store(update, parameter, value - update.lr * direction);
    store(update, slot, (momentum * options_.betas[1]).add_(grad, 1 - options_.betas[1]));
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Lion)
