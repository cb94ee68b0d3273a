// SPDX-License-Identifier: Apache-2.0
//
// Shapes on meta tensors, against the same operators on the CPU.
#include "host/train/plan/meta_kernels.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Function = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>;

// The shapes of a result, and of its gradients by x and w.
std::vector<std::vector<int64_t>> shapes_on(at::Device device, const Function& function) {
  const at::Tensor x = at::ones({4, 6, 9, 7}, device).set_requires_grad(true);
  const at::Tensor w = at::ones({6, 6, 3, 2}, device).set_requires_grad(true);
  const at::Tensor y = function(x, w);
  const auto gradients = torch::autograd::grad({y}, {x, w}, {at::ones_like(y)});
  return {y.sizes().vec(), gradients[0].sizes().vec(), gradients[1].sizes().vec()};
}

}  // namespace

TEST_CASE("results on meta tensors have the shapes of those on the CPU", "[model]") {
  register_meta_kernels();
  register_meta_kernels();  // has no effect
  std::vector<std::pair<std::string, Function>> functions;
  functions.emplace_back("convolution", [](const at::Tensor& x, const at::Tensor& w) {
    return at::conv2d(x, w, {}, {2, 1}, {1, 0}, {2, 3});
  });
  functions.emplace_back("convolution in groups", [](const at::Tensor& x, const at::Tensor& w) {
    return at::conv2d(x, w.narrow(1, 0, 2), {}, {1, 2}, {1, 1}, {1, 1}, 3);
  });
  functions.emplace_back("transposed convolution", [](const at::Tensor& x, const at::Tensor& w) {
    return at::conv_transpose2d(x, w.narrow(1, 0, 2), {}, {2, 3}, {1, 0}, {1, 2}, 3);
  });
  functions.emplace_back("batch norm", [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor weight = w.flatten(1).select(1, 0);
    return at::batch_norm(x, weight, weight, {}, {}, true, 0.1, 1e-5, /*cudnn_enabled=*/false);
  });
  functions.emplace_back("group norm", [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor weight = w.flatten(1).select(1, 0);
    return at::group_norm(x, 3, weight, weight);
  });
  functions.emplace_back("layer norm", [](const at::Tensor& x, const at::Tensor& w) {
    return at::layer_norm(x.narrow(3, 0, 2), {2}, w[0][0][0], w[0][0][1]);
  });
  functions.emplace_back("relu", [](const at::Tensor& x, const at::Tensor& w) {
    return at::relu(at::mul(x, w.sum()).relu_());
  });
  functions.emplace_back("index select", [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor index = at::arange(5, x.options().dtype(at::kLong)).remainder(2);
    return x.index_select(-2, index) * w.sum();
  });
  for (const auto& [name, function] : functions) {
    INFO(name);
    CHECK(shapes_on(at::kMeta, function) == shapes_on(at::kCPU, function));
  }
}

}  // namespace tenon
