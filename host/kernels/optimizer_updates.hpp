// SPDX-License-Identifier: Apache-2.0
//
// Updates of parameters in place, by libtorch's fused kernels where they are right. Autograd does
// not record them.
//
// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1;
// amsgrad: Reddi, Kale, Kumar, On the Convergence of Adam and Beyond (ICLR 2018), algorithm 2;
// decoupled decay: Loshchilov and Hutter, Decoupled Weight Decay Regularization (ICLR 2019),
// algorithm 2; Adagrad: Duchi, Hazan, Singer, Adaptive Subgradient Methods (JMLR 2011); momentum:
// Sutskever et al., On the importance of initialization and momentum in deep learning (ICML 2013).
// All in the form that PyTorch documents.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon {

// <tenon/torch/ops.hpp> has their contracts. An empty list stands for no slot: no amsgrad, no
// momentum.
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
                 const std::optional<at::Tensor>& found_inf);

void adagrad_update(at::TensorList parameters,
                    at::TensorList grads,
                    at::TensorList sums,
                    at::TensorList steps,
                    const at::Tensor& lr,
                    double lr_decay,
                    double eps,
                    double weight_decay,
                    const std::optional<at::Tensor>& found_inf);

void sgd_update(at::TensorList parameters,
                at::TensorList grads,
                at::TensorList momentums,
                at::TensorList steps,
                const at::Tensor& lr,
                double momentum,
                double dampening,
                bool nesterov,
                double weight_decay,
                const std::optional<at::Tensor>& found_inf);

}  // namespace tenon
