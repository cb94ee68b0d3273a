// SPDX-License-Identifier: Apache-2.0
//
// Schedule-free AdamW. Gradients are computed at y, a point between the fast iterate z and x, the
// weighted average of all z. The parameters hold y in training, and x in evaluation and exports; x
// itself is not stored.
//
//     d = gradient(y) / (sqrt(v) + eps) + weight_decay y
//     z' = z - lr d
//     x' = (1 - c) x + c z'
//     y' = (1 - beta1) z' + beta1 x'
//
// c is the weight of this update over the sum of the weights of all updates; a weight is
// step^r max(lr)^weight_lr_power.
//
// Source: Defazio et al., The Road Less Scheduled (NeurIPS 2024), algorithm 1, in the form of the
// authors' package schedulefree 1.4.1.
#include <tenon/cpp/plugin.hpp>

#include <vector>

#include "../by_operators.hpp"
#include "../lr_option.hpp"

namespace {

struct ScheduleFreeOptions : LrOptions {
  ScheduleFreeOptions() { lr = 2.5e-3; }

  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double r = 0.0;
  double weight_lr_power = 2.0;
};

enum Slot { kZ = 0, kExpAvgSq = 1, kWeightSum = 2, kLrMax = 3 };

class ScheduleFreeAdamW : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "schedule_free_adamw";
  static constexpr const char* kSummary =
      "AdamW that averages its iterates instead of lowering the learning rate";
  using Options = ScheduleFreeOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("betas", &Options::betas)
        .exclusive_min(0)
        .exclusive_max(1)
        .min_items(2)
        .max_items(2)
        .doc(
            "weight of the average in the point of the gradients, and decay factor of the mean "
            "squared gradient");
    binder.field("eps", &Options::eps).min(0).doc("added to the square root of the mean square");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay, multiplied by lr; not applied to parameters that the model "
            "exempts (norms, biases)");
    binder.field("r", &Options::r)
        .min(0)
        .doc("exponent of the step in the weight of an iterate; 0: no growth");
    binder.field("weight_lr_power", &Options::weight_lr_power)
        .min(0)
        .doc("exponent of the largest learning rate so far in the weight; 0: no weighting");
  }

  explicit ScheduleFreeAdamW(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override {
    info.flags(TENON_OPTIMIZER_OWN_SCHEDULE)
        .slot("z")
        .slot("exp_avg_sq")
        .scalar_slot("weight_sum", TENON_F64)
        .scalar_slot("lr_max", TENON_F64);
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    if (is_skipped(update)) {
      return;
    }
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      const at::Tensor step = update.steps[i].to(at::kDouble);
      const at::Tensor lr_max = at::maximum(update.slots[kLrMax][i], update.lr);
      const at::Tensor weight = step.pow(options_.r) * lr_max.pow(options_.weight_lr_power);
      const at::Tensor weight_sum = update.slots[kWeightSum][i] + weight;
      // A learning rate of 0 at the start of a warmup has no weight.
      const at::Tensor share = at::where(weight_sum > 0, weight / weight_sum, weight);
      const at::Tensor correction =
          1 - at::pow(at::scalar_tensor(options_.betas[1], step.options()), step);
      for_each_chunk(update.parameters[i], [&](int64_t begin, int64_t length) {
        move(update,
             part_of(update.parameters[i], begin, length),
             part_of(update.grads[i], begin, length),
             part_of(update.slots[kZ][i], begin, length),
             part_of(update.slots[kExpAvgSq][i], begin, length),
             step,
             share,
             correction);
      });
      store(update, update.slots[kLrMax][i], lr_max);
      store(update, update.slots[kWeightSum][i], weight_sum);
    }
  }

  // Before its first update, a parameter has one value.
  void evaluation_values(const tenon::Exec&, const tenon_evaluation_values_args& args) override {
    const tenon::TorchEvaluationValues values(args, num_slots());
    for (size_t i = 0; i < values.parameters.size(); ++i) {
      const at::Tensor share =
          (values.steps[i] > 0).to(at::kDouble) * (1 - 1 / options_.betas[0]);  // of z
      for_each_chunk(values.parameters[i], [&](int64_t begin, int64_t length) {
        at::Tensor parameter = part_of(values.parameters[i], begin, length);
        const at::Tensor y = widened(parameter);
        const at::Tensor z = widened(part_of(values.slots[kZ][i], begin, length));
        parameter.copy_(y + share * (z - y));
      });
    }
  }

 private:
  void move(const tenon::TorchUpdate& update,
            const at::Tensor& parameter,
            const at::Tensor& narrow_grad,
            const at::Tensor& stored_z,
            const at::Tensor& stored_square,
            const at::Tensor& step,
            const at::Tensor& share,
            const at::Tensor& correction) const {
    const double beta1 = options_.betas[0];
    const double beta2 = options_.betas[1];
    const at::Tensor y = widened(parameter);
    const at::Tensor grad = widened(narrow_grad);
    const at::Tensor z = at::where(step.eq(1), y, widened(stored_z));
    const at::Tensor square = (widened(stored_square) * beta2).addcmul_(grad, grad, 1 - beta2);
    at::Tensor direction = grad / (square / correction).sqrt_().add_(options_.eps);
    if (options_.weight_decay != 0) {
      direction = direction + y * options_.weight_decay;
    }
    const at::Tensor averaged = y + share * (z - y);
    store(update, parameter, averaged + update.lr * (beta1 * (1 - share) - 1) * direction);
    store(update, stored_z, z - update.lr * direction);
    store(update, stored_square, square);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(ScheduleFreeAdamW)
