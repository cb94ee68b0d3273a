// SPDX-License-Identifier: Apache-2.0
//
// tenon::linear with each of its candidates, against libtorch's in fp64.
#include "host/kernels/linear.hpp"

#include "host/kernels/kernel_choice.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

bool is_near(const at::Tensor& found, const at::Tensor& expected, double tolerance = 3e-6) {
  return found.sizes() == expected.sizes() &&
         (found.to(at::kDouble) - expected).norm().item<double>() <=
             tolerance * expected.norm().item<double>();
}

// A value and the gradients by x, w and, if it is there, b.
std::vector<at::Tensor> run(const std::vector<at::Tensor>& of,
                            at::ScalarType dtype,
                            const std::string& activation = "none") {
  const std::vector<at::Tensor> leaves = leaves_of(of, dtype);
  const at::AutoGradMode record(true);
  const auto bias = leaves.size() > 2 ? std::optional(leaves[2]) : std::nullopt;
  const at::Tensor y = linear(leaves[0], leaves[1], bias, activation);
  std::vector<at::Tensor> out =
      torch::autograd::grad({y}, leaves, {made(3, y.sizes().vec()).to(dtype)});
  out.push_back(y.detach());
  return out;
}

}  // namespace

TEST_CASE("a linear layer of any size is libtorch's, in value and gradient", "[kernels]") {
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
  const std::string kernel =
      GENERATE("auto", "plain", "mkl", "onednn", "onednn_transposed", "tenon");
  CAPTURE(sizes.x, sizes.width, has_bias, kernel);
  const PolicyScope use(forced_kernel("linear", kernel));
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

TEST_CASE("a linear layer in bf16 is that of fp32, rounded", "[kernels]") {
  const std::string kernel = GENERATE("native", "widened");
  CAPTURE(kernel);
  const PolicyScope use(forced_kernel("linear", kernel));
  const std::vector<at::Tensor> of = {made(0, {65, 48}).to(at::kBFloat16),
                                      made(1, {33, 48}).to(at::kBFloat16)};
  const std::vector<at::Tensor> found = run(of, at::kBFloat16);
  const std::vector<at::Tensor> expected = run(of, at::kDouble);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].scalar_type() == at::kBFloat16);
    CHECK(is_near(found[i], expected[i], 6e-3));
  }
}

TEST_CASE("activations are libtorch's", "[kernels]") {
  const std::vector<at::Tensor> of = {made(0, {9, 12}), made(1, {7, 12}), made(2, {7})};
  const at::Tensor y = at::linear(of[0], of[1], of[2]);
  CHECK(is_near(run(of, at::kFloat, "relu").back(), at::relu(y)));
  CHECK(is_near(run(of, at::kFloat, "gelu").back(), at::gelu(y)));
  CHECK(is_near(run(of, at::kFloat, "gelu_tanh").back(), at::gelu(y, "tanh")));
  CHECK(is_near(run(of, at::kFloat, "silu").back(), at::silu(y)));
  CHECK(is_near(run(of, at::kFloat, "tanh").back(), at::tanh(y)));
  CHECK_THROWS_WITH(run(of, at::kFloat, "swish"),
                    Catch::Contains("'swish' is not an activation") && Catch::Contains("silu"));
}

TEST_CASE("a linear layer reads any strides and makes the gradients that are asked for",
          "[kernels]") {
  const std::string kernel = GENERATE("auto", "mkl", "onednn", "tenon");
  const PolicyScope use(forced_kernel("linear", kernel));
  const at::AutoGradMode record(true);
  const at::Tensor x = made(0, {130, 700}).to(at::kFloat).t();
  const at::Tensor w = made(1, {130, 90}).to(at::kFloat).t().requires_grad_(true);
  const at::Tensor b = made(2, {90}).to(at::kFloat).requires_grad_(true);
  const at::Tensor y = linear(x, w, b, "none");
  CHECK(is_near(
      y.detach(),
      at::linear(x.to(at::kDouble), w.detach().to(at::kDouble), b.detach().to(at::kDouble))));
  const at::Tensor g = made(3, {90, 700}).to(at::kFloat).t();
  const auto grads = torch::autograd::grad({y}, {w, b}, {g});
  CHECK(is_near(grads[0], g.to(at::kDouble).t().mm(x.to(at::kDouble))));
  CHECK(is_near(grads[1], g.to(at::kDouble).sum(0)));

  const at::Tensor leaf = x.detach().requires_grad_(true);
  const at::Tensor frozen = linear(leaf, w.detach(), {}, "none");
  CHECK(is_near(torch::autograd::grad({frozen}, {leaf}, {g})[0],
                g.to(at::kDouble).mm(w.detach().to(at::kDouble))));
}

TEST_CASE("empty rows and autocast are libtorch's", "[kernels]") {
  const at::Tensor w = at::ones({64, 128});
  CHECK(linear(at::ones({0, 128}), w, {}, "none").sizes() == at::IntArrayRef({0, 64}));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor narrow = linear(at::ones({512, 128}), w, {}, "none");
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(narrow.scalar_type() == at::kBFloat16);
  CHECK(narrow[0][0].item<float>() == 128);
  CHECK_THROWS(linear(at::ones({4, 3}), w, {}, "none"));
  CHECK_THROWS_WITH(linear(w, {}, {}, "none"), Catch::Contains("at least one weight"));
}

TEST_CASE("several weights with one input are one product", "[kernels]") {
  const at::AutoGradMode record(true);
  const at::Tensor x = made(0, {40, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor w0 = made(1, {30, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor w1 = made(2, {70, 24}).to(at::kFloat).requires_grad_(true);
  const at::Tensor y = linear(x, {w0, w1}, {}, "none");
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
