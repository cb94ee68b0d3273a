// SPDX-License-Identifier: Apache-2.0
//
// The linear layers that models share, by whatever product, against libtorch's in fp64.
#include "plugins/models/linear.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor made(uint64_t seed, const std::vector<int64_t>& shape) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

bool is_near(const at::Tensor& found, const at::Tensor& expected) {
  return found.sizes() == expected.sizes() &&
         (found.to(at::kDouble) - expected).norm().item<double>() <=
             3e-6 * expected.norm().item<double>();
}

bool is_by_one_dnn(const at::Tensor& y) {
  return y.grad_fn()->name().find("OneDnnLinear") != std::string::npos;
}

// A value and the gradients of what it is made of.
std::vector<at::Tensor> run(const std::vector<at::Tensor>& of, at::ScalarType dtype) {
  std::vector<at::Tensor> leaves;
  leaves.reserve(of.size());
  for (const at::Tensor& value : of) {
    leaves.push_back(value.to(dtype).detach().clone().requires_grad_(true));
  }
  const at::AutoGradMode record(true);
  const at::Tensor bias = leaves.size() > 2 ? leaves[2] : at::Tensor();
  const at::Tensor y = dtype == at::kDouble ? at::linear(leaves[0], leaves[1], bias)
                                            : linear_layer(leaves[0], leaves[1], bias);
  std::vector<at::Tensor> out =
      torch::autograd::grad({y}, leaves, {made(3, y.sizes().vec()).to(dtype)});
  out.push_back(y.detach());
  return out;
}

}  // namespace

TEST_CASE("a linear layer of any size is libtorch's, in value and gradient", "[parity]") {
  struct Sizes {
    std::vector<int64_t> x;
    int64_t width;
  };
  const auto sizes = GENERATE(values<Sizes>({{{700, 61}, 130},
                                             {{700, 130}, 61},
                                             {{2, 150, 120}, 120},
                                             {{900, 300}, 8},
                                             {{2048, 2048}, 1},
                                             {{5, 4}, 3},
                                             {{1, 2048}, 1100},
                                             {{40}, 7}}));
  const bool has_bias = GENERATE(true, false);
  CAPTURE(sizes.x, sizes.width, has_bias);
  std::vector<at::Tensor> of = {made(0, sizes.x), made(1, {sizes.width, sizes.x.back()})};
  if (has_bias) {
    of.push_back(made(2, {sizes.width}));
  }
  const std::vector<at::Tensor> found = run(of, at::kFloat);
  const std::vector<at::Tensor> expected = run(of, at::kDouble);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(is_near(found[i], expected[i]));
  }
  const std::vector<at::Tensor> again = run(of, at::kFloat);
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(at::equal(found[i], again[i]));
  }
}

TEST_CASE("a linear layer reads any strides and makes the gradients that are asked for",
          "[parity]") {
  const at::AutoGradMode record(true);
  const at::Tensor x = made(0, {130, 700}).to(at::kFloat).t();
  const at::Tensor w = made(1, {130, 90}).to(at::kFloat).t().requires_grad_(true);
  const at::Tensor b = made(2, {90}).to(at::kFloat).requires_grad_(true);
  const at::Tensor y = linear_layer(x, w, b);
  CHECK(is_near(
      y.detach(),
      at::linear(x.to(at::kDouble), w.detach().to(at::kDouble), b.detach().to(at::kDouble))));
  const at::Tensor g = made(3, {90, 700}).to(at::kFloat).t();
  const auto grads = torch::autograd::grad({y}, {w, b}, {g});
  CHECK(is_near(grads[0], g.to(at::kDouble).t().mm(x.to(at::kDouble))));
  CHECK(is_near(grads[1], g.to(at::kDouble).sum(0)));

  const at::Tensor leaf = x.detach().requires_grad_(true);
  const at::Tensor frozen = linear_layer(leaf, w.detach());
  CHECK(is_near(torch::autograd::grad({frozen}, {leaf}, {g})[0],
                g.to(at::kDouble).mm(w.detach().to(at::kDouble))));
}

TEST_CASE("oneDNN multiplies large fp32 and nothing else", "[parity]") {
  if (!OneDnn::is_available()) {
    TENON_SKIP("this libtorch is built without oneDNN");
  }
  const at::AutoGradMode record(true);
  const at::Tensor x = at::ones({512, 128});
  const at::Tensor w = at::ones({64, 128}).requires_grad_(true);
  CHECK(is_by_one_dnn(linear_layer(x, w)));
  CHECK_FALSE(is_by_one_dnn(linear_layer(x.narrow(0, 0, 16), w)));
  CHECK_FALSE(is_by_one_dnn(linear_layer(at::ones({1 << 14, 128}), w.narrow(0, 0, 1))));
  CHECK_FALSE(is_by_one_dnn(linear_layer(x.to(at::kDouble), w.to(at::kDouble))));
  CHECK_FALSE(is_by_one_dnn(linear_layer(x.to(at::kBFloat16), w.to(at::kBFloat16))));
  CHECK(linear_layer(at::ones({0, 128}), w).sizes() == at::IntArrayRef({0, 64}));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor narrow = linear_layer(x, w);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(narrow.scalar_type() == at::kBFloat16);
}

TEST_CASE("several weights with one input are one product", "[parity]") {
  if (!OneDnn::is_available()) {
    TENON_SKIP("this libtorch is built without oneDNN");
  }
  const at::AutoGradMode record(true);
  const at::Tensor x = made(0, {40, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor w0 = made(1, {30, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor w1 = made(2, {70, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor y = joint_linear(x, {w0, w1});
  const at::Tensor g = made(3, {40, 100}).to(at::kFloat);
  const auto found = torch::autograd::grad({y}, {x, w0, w1}, {g});
  const at::Tensor whole = at::cat({w0, w1}).detach().to(at::kDouble);
  const at::Tensor x64 = x.detach().to(at::kDouble);
  const at::Tensor g64 = g.to(at::kDouble);
  CHECK(is_near(y.detach(), x64.mm(whole.t())));
  CHECK(is_near(found[0], g64.mm(whole)));
  CHECK(is_near(at::cat({found[1], found[2]}), g64.t().mm(x64)));
}

}  // namespace tenon
