// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/optimizer_updates.hpp"

#include <ATen/ATen.h>

#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace tenon {
namespace {

struct NamedList {
  std::string_view name;
  at::TensorList tensors;
};

void check_lists(std::string_view op, size_t num, std::initializer_list<NamedList> lists) {
  for (const NamedList& list : lists) {
    TORCH_CHECK(list.tensors.size() == num,
                "tenon::",
                op,
                ": `",
                list.name,
                "` has ",
                list.tensors.size(),
                " tensors for ",
                num,
                " parameters");
  }
}

// Calls `run` with the learning rate as a fused kernel takes it. On a CPU that is a number: some
// versions of the kernels read a tensor as fp32.
template <class Run>
void with_rate(const at::Tensor& lr, const Run& run) {
  if (lr.is_cpu()) {
    run(lr.item<double>());
  } else {
    run(lr.to(at::kFloat));
  }
}

// Computes in fp32 if parameters are narrower, and rounds once at the end. A parameter's first
// gradient enters its momentum undampened; the step decides, without waiting for the device.
void sgd_by_operators(at::Tensor parameter,
                      const at::Tensor& grad_in,
                      const std::optional<at::Tensor>& stored_momentum,
                      const at::Tensor& step,
                      const at::Tensor& lr,
                      double momentum,
                      double dampening,
                      bool nesterov,
                      double weight_decay,
                      const std::optional<at::Tensor>& found_inf) {
  const auto dtype = at::promote_types(parameter.scalar_type(), at::kFloat);
  const at::Tensor before = parameter.to(dtype);
  const at::Tensor grad = grad_in.to(dtype).add(before, weight_decay);
  const auto store = [&](const at::Tensor& to, const at::Tensor& old, const at::Tensor& next) {
    to.copy_(found_inf ? at::where(found_inf->eq(1), old, next) : next);
  };
  at::Tensor direction = grad;
  if (stored_momentum) {
    const at::Tensor old = stored_momentum->to(dtype);
    const at::Tensor kept = at::where(step.eq(1),
                                      at::scalar_tensor(1.0, grad.options()),
                                      at::scalar_tensor(1.0 - dampening, grad.options()));
    const at::Tensor next = old * momentum + grad * kept;
    direction = nesterov ? grad + next * momentum : next;
    store(*stored_momentum, old, next);
  }
  store(parameter, before, before - lr * direction);
}

}  // namespace

void adam_update(at::TensorList parameters,
                 at::TensorList grads,
                 at::TensorList exp_avgs,
                 at::TensorList exp_avg_sqs,
                 at::TensorList max_exp_avg_sqs,
                 at::TensorList steps,
                 const at::Tensor& lr,
                 double beta1,
                 double beta2,
                 double eps,
                 double weight_decay,
                 bool decoupled_decay,
                 const std::optional<at::Tensor>& found_inf) {
  const size_t n = parameters.size();
  const bool has_max = !max_exp_avg_sqs.empty();
  check_lists("adam_",
              n,
              {{"grads", grads},
               {"exp_avgs", exp_avgs},
               {"exp_avg_sqs", exp_avg_sqs},
               {"max_exp_avg_sqs", has_max ? max_exp_avg_sqs : parameters},
               {"steps", steps}});
  const at::NoGradGuard no_grad;
  with_rate(lr, [&](const auto& rate) {
    const auto apply = [&](auto kernel) {
      kernel(parameters,
             grads,
             exp_avgs,
             exp_avg_sqs,
             max_exp_avg_sqs,
             steps,
             rate,
             beta1,
             beta2,
             weight_decay,
             eps,
             /*amsgrad=*/has_max,
             /*maximize=*/false,
             /*grad_scale=*/std::nullopt,
             found_inf);
    };
    if (decoupled_decay) {
      apply([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      apply([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    }
  });
}

void adagrad_update(at::TensorList parameters,
                    at::TensorList grads,
                    at::TensorList sums,
                    at::TensorList steps,
                    const at::Tensor& lr,
                    double lr_decay,
                    double eps,
                    double weight_decay,
                    const std::optional<at::Tensor>& found_inf) {
  check_lists("adagrad_", parameters.size(), {{"grads", grads}, {"sums", sums}, {"steps", steps}});
  const at::NoGradGuard no_grad;
  with_rate(lr, [&](const auto& rate) {
    at::_fused_adagrad_(parameters,
                        grads,
                        sums,
                        steps,
                        rate,
                        lr_decay,
                        weight_decay,
                        eps,
                        /*maximize=*/false,
                        /*grad_scale=*/{},
                        found_inf);
  });
}

void sgd_update(at::TensorList parameters,
                at::TensorList grads,
                at::TensorList momentums,
                at::TensorList steps,
                const at::Tensor& lr,
                double momentum,
                double dampening,
                bool nesterov,
                double weight_decay,
                const std::optional<at::Tensor>& found_inf) {
  const size_t n = parameters.size();
  const bool has_momentum = !momentums.empty();
  check_lists(
      "sgd_",
      n,
      {{"grads", grads}, {"momentums", has_momentum ? momentums : parameters}, {"steps", steps}});
  if (n == 0) {
    return;
  }
  const at::NoGradGuard no_grad;
  // Buffers start as zeros, so without dampening the first update is no special case. On narrow
  // CPU tensors, libtorch's fused kernel leaves most elements unchanged.
  const bool is_narrow_on_cpu = parameters[0].is_cpu() && parameters[0].element_size() < 4;
  if (dampening == 0 && !is_narrow_on_cpu) {
    with_rate(lr, [&](const auto& rate) {
      at::_fused_sgd_(parameters,
                      grads,
                      momentums,
                      weight_decay,
                      momentum,
                      rate,
                      /*dampening=*/0.0,
                      nesterov,
                      /*maximize=*/false,
                      /*is_first_step=*/false,
                      /*grad_scale=*/{},
                      found_inf);
    });
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    sgd_by_operators(parameters[i],
                     grads[i],
                     has_momentum ? std::optional(momentums[i]) : std::nullopt,
                     steps[i],
                     lr,
                     momentum,
                     dampening,
                     nesterov,
                     weight_decay,
                     found_inf);
  }
}

}  // namespace tenon
