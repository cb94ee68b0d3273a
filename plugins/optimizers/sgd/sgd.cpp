// SPDX-License-Identifier: Apache-2.0
//
// Stochastic gradient descent with momentum.
//
// A parameter's first update sets the running sum to the gradient itself, undampened. The buffer
// starts as zeros, so without dampening the usual formula gives the same, and libtorch's fused
// kernel is used, except for bf16 and fp16 on a CPU. With dampening, the step decides per
// parameter, without waiting for the device.
//
// Source: Sutskever et al., On the importance of initialization and momentum in deep learning (ICML
// 2013), in the form that PyTorch documents for its SGD.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/optimizer.hpp>

#include <ATen/ATen.h>

#include <cstddef>

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
    if (options_.dampening > 0 || is_narrow_on_cpu(update)) {
      update_plain(update);
    } else if (update.lr.is_cpu()) {
      run_fused(update, update.lr.item<double>());
    } else {
      run_fused(update, update.lr.to(at::kFloat));
    }
  }

 private:
  template <class Rate>
  void run_fused(const tenon::TorchUpdate& update, const Rate& lr) const {
    at::_fused_sgd_(update.parameters,
                    update.grads,
                    options_.momentum > 0 ? at::TensorList(update.slots[0]) : at::TensorList(),
                    options_.weight_decay,
                    options_.momentum,
                    lr,
                    /*dampening=*/0.0,
                    options_.nesterov,
                    /*maximize=*/false,
                    /*is_first_step=*/false,
                    /*grad_scale=*/{},
                    update.found_inf);
  }

  // libtorch's fused kernel leaves most elements of narrow CPU tensors unchanged.
  static bool is_narrow_on_cpu(const tenon::TorchUpdate& update) {
    return update.parameters[0].is_cpu() && update.parameters[0].element_size() < 4;
  }

  // Computes in fp32 if parameters are narrower, and rounds once at the end.
  void update_plain(const tenon::TorchUpdate& update) const {
    for (size_t i = 0; i < update.parameters.size(); ++i) {
      at::Tensor stored = update.parameters[i];
      const auto dtype = at::promote_types(stored.scalar_type(), at::kFloat);
      const at::Tensor parameter = stored.to(dtype);
      const at::Tensor grad = update.grads[i].to(dtype).add(parameter, options_.weight_decay);
      const auto is_skipped = [&] { return update.found_inf->eq(1); };
      at::Tensor direction = grad;
      if (options_.momentum > 0) {
        at::Tensor buffer = update.slots[0][i];
        const at::Tensor kept =
            at::where(update.steps[i].eq(1),
                      at::scalar_tensor(1.0, grad.options()),
                      at::scalar_tensor(1.0 - options_.dampening, grad.options()));
        const at::Tensor next_buffer = buffer.to(dtype) * options_.momentum + grad * kept;
        direction = options_.nesterov ? grad + next_buffer * options_.momentum : next_buffer;
        buffer.copy_(update.found_inf ? at::where(is_skipped(), buffer.to(dtype), next_buffer)
                                      : next_buffer);
      }
      const at::Tensor next = parameter - update.lr * direction;
      stored.copy_(update.found_inf ? at::where(is_skipped(), parameter, next) : next);
    }
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(Sgd)
