// SPDX-License-Identifier: Apache-2.0
//
// Adafactor: Adam's mean square as the product of a row and a column, without a mean of gradients.
// Vectors keep a whole mean square, in the slot of the columns.
//
// Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost (ICML
// 2018), algorithms 4 and 5, in the form that PyTorch documents.
#include <tenon/cpp/plugin.hpp>

#include <cmath>
#include <limits>
#include <optional>

#include "../by_operators.hpp"
#include "../lr_option.hpp"

namespace {

struct AdafactorOptions : LrOptions {
  AdafactorOptions() { lr = 1e-2; }

  double beta2_decay = -0.8;
  std::optional<double> eps1;
  double eps2 = 1e-3;
  double d = 1.0;
};

class Adafactor : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "adafactor";
  static constexpr const char* kSummary = "Adafactor: mean squares by row and column only";
  using Options = AdafactorOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr)
        .min(0)
        .doc("largest relative step, multiplied by the schedule; a step is at most 1 / sqrt(t)");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc(
            "decoupled weight decay, multiplied by lr; not applied to parameters that the model "
            "exempts (norms, biases)");
    binder.field("beta2_decay", &Options::beta2_decay)
        .max(0)
        .doc("exponent of the update count t in the weight of a new squared gradient");
    binder.field("eps1", &Options::eps1)
        .min(0)
        .doc("smallest divisor of a gradient; null: the precision of the dtype");
    binder.field("eps2", &Options::eps2)
        .min(0)
        .doc("smallest root mean square of a parameter, to which steps are relative");
    binder.field("d", &Options::d).min(1).doc("largest root mean square of an update");
  }

  explicit Adafactor(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override {
    info.needs(TENON_OPTIMIZER_MATRIX)
        .row_slot("row_var", TENON_CLASS_PARAM)
        .column_slot("col_var", TENON_CLASS_PARAM);
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    if (is_skipped(update)) {
      return;
    }
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      update_one(update,
                 update.parameters[i],
                 widened(update.grads[i]),
                 update.slots[0][i],
                 update.slots[1][i],
                 update.steps[i].to(at::kDouble));
    }
  }

 private:
  static double precision_of(at::ScalarType dtype) {
    switch (dtype) {
      case at::kDouble:
        return std::numeric_limits<double>::epsilon();
      case at::kHalf:
        return 0x1p-10;
      case at::kBFloat16:
        return 0x1p-7;
      default:
        return std::numeric_limits<float>::epsilon();
    }
  }

  static at::Tensor root_mean_square(const at::Tensor& x) {
    return at::linalg_vector_norm(x, 2, at::OptionalIntArrayRef(), false, at::kDouble) /
           std::sqrt(static_cast<double>(x.numel()));
  }

  // Returns the mean of g^2 along one axis, which stays with size 1.
  static at::Tensor mean_square(const at::Tensor& grad, int64_t axis) {
    return at::linalg_vector_norm(grad, 2, at::IntArrayRef{axis}, /*keepdim=*/true)
        .square_()
        .div_(static_cast<double>(grad.size(axis)));
  }

  void update_one(const tenon::TorchUpdate& update,
                  const at::Tensor& parameter,
                  const at::Tensor& grad,
                  const at::Tensor& row_slot,
                  const at::Tensor& column_slot,
                  const at::Tensor& step) const {
    const double eps1 = options_.eps1.value_or(precision_of(parameter.scalar_type()));
    const at::Tensor before = widened(parameter);
    const at::Tensor share = step.pow(options_.beta2_decay);  // of the new squares
    const at::Tensor rate = at::minimum(update.lr, step.rsqrt());
    const at::Tensor alpha = root_mean_square(before).clamp_min(options_.eps2) * rate;
    const auto mixed = [&share](const at::Tensor& old, const at::Tensor& next) {
      return old + share * (next - old);
    };
    at::Tensor square;  // estimate of the mean of g^2
    if (parameter.dim() > 1) {
      const at::Tensor rows = mixed(widened(row_slot).unsqueeze(-1), mean_square(grad, -1));
      const at::Tensor columns = mixed(widened(column_slot).unsqueeze(-2), mean_square(grad, -2));
      square = at::matmul(rows, columns).div_(rows.mean(-2, /*keepdim=*/true).clamp_min_(eps1));
      store(update, row_slot, rows.squeeze(-1));
      store(update, column_slot, columns.squeeze(-2));
    } else {
      square = mixed(widened(column_slot), grad * grad);
      store(update, column_slot, square);
      square = square.clone();
    }
    const at::Tensor direction = square.clamp_min_(eps1 * eps1).rsqrt_().mul_(grad);
    const at::Tensor scale = alpha / (root_mean_square(direction) / options_.d).clamp_min(1.0);
    store(update, parameter, before * (1 - update.lr * options_.weight_decay) - scale * direction);
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Adafactor)
