// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/loss_call.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/plugins/made_component.hpp"

namespace tenon {

namespace {

std::vector<const tenon_tensor*> handles_of(const std::vector<at::Tensor>& inputs) {
  std::vector<const tenon_tensor*> handles;
  for (const at::Tensor& input : inputs) {
    handles.push_back(input.defined() ? borrow(input) : nullptr);
  }
  return handles;
}

}  // namespace

LossResult call_loss(const LossProxy& loss, std::vector<at::Tensor> inputs, double grad_sum) {
  const tenon_exec exec = make_exec(loss.instance());
  LossResult result;
  result.count = count_loss(loss, inputs);
  at::Tensor& leaf = inputs[0];
  leaf = leaf.detach();
  if (!loss.has_backward()) {
    leaf.requires_grad_();
  }
  const auto handles = handles_of(inputs);
  const at::Tensor sum = take_handle(loss.compute(exec, handles.data(), handles.size()));
  const at::Tensor by_sum = at::scalar_tensor(grad_sum, sum.options().requires_grad(false));
  result.grads.resize(inputs.size());
  if (loss.has_backward()) {
    std::vector<tenon_tensor*> grads(inputs.size(), nullptr);
    loss.backward(exec, handles.data(), handles.size(), borrow(by_sum), grads.data());
    for (size_t i = 0; i < grads.size(); ++i) {
      result.grads[i] = HandleGuard(grads[i]).take();
    }
  } else {
    result.grads[0] = torch::autograd::grad({sum}, {leaf}, {by_sum})[0];
  }
  result.sum = sum.detach();
  return result;
}

at::Tensor evaluate_loss(const LossProxy& loss, const std::vector<at::Tensor>& inputs) {
  const c10::NoGradGuard no_grad;
  const auto handles = handles_of(inputs);
  return take_handle(loss.compute(make_exec(loss.instance()), handles.data(), handles.size()));
}

double count_loss(const LossProxy& loss, const std::vector<at::Tensor>& inputs) {
  std::vector<const tenon_tensor*> handles = handles_of(inputs);
  if (loss.info().counts_from_batch) {
    handles[0] = nullptr;  // an output of the model, which is not there yet
  }
  const at::Tensor count =
      take_handle(loss.count(make_exec(loss.instance()), handles.data(), handles.size()));
  CHECK(count.scalar_type() == at::kDouble);
  CHECK(count.dim() == 0);
  return count.item<double>();
}

}  // namespace tenon
