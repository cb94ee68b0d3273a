// SPDX-License-Identifier: Apache-2.0
//
// Muon: orthogonalizes the momentum of each matrix by a Newton-Schulz iteration.
//
// Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024); the factor
// match_rms_adamw: Liu et al., Muon is Scalable for LLM Training (2025), section 2.2. In the form
// that PyTorch documents for its Muon.
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../by_operators.hpp"
#include "../lr_option.hpp"

namespace {

enum class LrFactor { kOriginal, kMatchRmsAdamW };
enum class Arithmetic { kBf16, kParameter };

struct MuonOptions : LrOptions {
  MuonOptions() { weight_decay = 0.1; }

  double momentum = 0.95;
  bool nesterov = true;
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};
  int64_t ns_steps = 5;
  double eps = 1e-7;
  Arithmetic ns_dtype = Arithmetic::kBf16;
  LrFactor lr_factor = LrFactor::kOriginal;
};

class Muon : public tenon::TorchOptimizer {
 public:
  static constexpr const char* kType = "muon";
  static constexpr const char* kSummary = "Muon: orthogonalized momentum, for weight matrices";
  using Options = MuonOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    bind_lr(binder);
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc("decoupled weight decay, multiplied by lr");
    binder.field("momentum", &Options::momentum)
        .min(0)
        .exclusive_max(1)
        .doc("decay factor of the mean of gradients");
    binder.field("nesterov", &Options::nesterov).doc("Nesterov momentum");
    binder.field("ns_coefficients", &Options::ns_coefficients)
        .min_items(3)
        .max_items(3)
        .doc("coefficients of the polynomial a x + b x^3 + c x^5 of an iteration");
    binder.field("ns_steps", &Options::ns_steps).min(1).max(99).doc("number of iterations");
    binder.field("eps", &Options::eps).min(0).doc("smallest norm by which a momentum is divided");
    binder
        .choice("ns_dtype",
                &Options::ns_dtype,
                {{"bf16", Arithmetic::kBf16}, {"parameter", Arithmetic::kParameter}})
        .doc("dtype of the iterations: bf16 as in PyTorch, or the dtype of the parameter");
    binder
        .choice("lr_factor",
                &Options::lr_factor,
                {{"original", LrFactor::kOriginal}, {"match_rms_adamw", LrFactor::kMatchRmsAdamW}})
        .doc(
            "factor on lr for a matrix of m rows and n columns: sqrt(max(1, m / n)), or 0.2 "
            "sqrt(max(m, n)), which suits the learning rates of AdamW");
  }

  explicit Muon(const Options& options) : options_(options) {}

  void describe(tenon::OptimizerInfo& info) override {
    info.needs(TENON_OPTIMIZER_MATRIX).flags(TENON_OPTIMIZER_MATRICES_ONLY).slot("momentum_buffer");
  }

  void update(const tenon::Exec&, const tenon::TorchUpdate& update) override {
    if (is_skipped(update)) {
      return;
    }
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      const at::Tensor& parameter = update.parameters[i];
      const at::Tensor grad = widened(update.grads[i]);
      const at::Tensor momentum = widened(update.slots[0][i]).lerp(grad, 1 - options_.momentum);
      const at::Tensor direction = orthogonalized(
          options_.nesterov ? grad.lerp(momentum, options_.momentum) : momentum, parameter);
      const at::Tensor value = widened(parameter) * (1 - update.lr * options_.weight_decay);
      const at::Tensor step = direction.to(value.scalar_type()).mul_(factor_of(parameter));
      store(update, parameter, value - update.lr * step);
      store(update, update.slots[0][i], momentum);
    }
  }

 private:
  double factor_of(const at::Tensor& matrix) const {
    const auto rows = static_cast<double>(matrix.size(0));
    const auto columns = static_cast<double>(matrix.size(1));
    return options_.lr_factor == LrFactor::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                     : 0.2 * std::sqrt(std::max(rows, columns));
  }

  // Iterates on the matrix with fewer rows than columns. Its singular values approach 1.
  at::Tensor orthogonalized(const at::Tensor& matrix, const at::Tensor& parameter) const {
    const double a = options_.ns_coefficients[0];
    const double b = options_.ns_coefficients[1];
    const double c = options_.ns_coefficients[2];
    const bool is_tall = matrix.size(0) > matrix.size(1);
    at::Tensor x = options_.ns_dtype == Arithmetic::kBf16 ? matrix.to(at::kBFloat16)
                                                          : matrix.to(parameter.scalar_type());
    x = is_tall ? x.t() : x;
    x = x / x.norm().clamp_min(options_.eps);
    for (int64_t i = 0; i < options_.ns_steps; ++i) {
      const at::Tensor gram = at::mm(x, x.t());
      const at::Tensor polynomial = at::addmm(gram, gram, gram, b, c);
      x = at::addmm(x, polynomial, x, a);
    }
    return is_tall ? x.t() : x;
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Muon)
