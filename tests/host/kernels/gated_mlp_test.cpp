// SPDX-License-Identifier: Apache-2.0
//
// tenon::gated_mlp against libtorch's operators in fp64.
#include "host/kernels/gated_mlp.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor layer_of_libtorch(const std::vector<at::Tensor>& in) {
  return at::linear(at::silu(at::linear(in[0], in[1])) * at::linear(in[0], in[2]), in[3]);
}

// The result, and its gradients by those of x, gate, up and down that are `trained`.
template <class Layer>
std::vector<at::Tensor> layer_run(const std::vector<at::Tensor>& of,
                                  const std::vector<size_t>& trained,
                                  at::ScalarType dtype,
                                  const Layer& layer) {
  std::vector<at::Tensor> in = leaves_of(of, dtype);
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& tensor : in) {
    tensor.set_requires_grad(false);
  }
  for (const size_t i : trained) {
    wanted.push_back(in[i].set_requires_grad(true));
  }
  const at::AutoGradMode record(true);
  const at::Tensor y = layer(in);
  std::vector<at::Tensor> out =
      torch::autograd::grad({y}, wanted, {made(9, y.sizes().vec()).to(dtype)});
  out.push_back(y.detach());
  return out;
}

}  // namespace

TEST_CASE("a gated layer of any size is libtorch's, in value and gradient", "[kernels]") {
  struct Sizes {
    std::vector<int64_t> x;
    int64_t inner;
    int64_t out;
  };
  const auto sizes = GENERATE(values<Sizes>(
      {{{700, 61}, 130, 50}, {{2, 150, 120}, 64, 120}, {{1, 96}, 33, 96}, {{3, 5}, 1, 2}}));
  const auto trained =
      GENERATE(values<std::vector<size_t>>({{0, 1, 2, 3}, {0}, {3}, {1}, {2, 3}, {0, 2}}));
  const std::string kernels = GENERATE("auto", "plain");
  CAPTURE(sizes.x, sizes.inner, trained, kernels);
  const int64_t width = sizes.x.back();
  const std::vector<at::Tensor> of = {made(1, sizes.x),
                                      made(2, {sizes.inner, width}) * 0.1,
                                      made(3, {sizes.inner, width}) * 0.1,
                                      made(4, {sizes.out, sizes.inner}) * 0.1};
  const PolicyScope policy(all_kernels(kernels));
  const auto expected = layer_run(of, trained, at::kDouble, layer_of_libtorch);
  const auto found = layer_run(of, trained, at::kFloat, [](const std::vector<at::Tensor>& in) {
    return gated_mlp(in[0], in[1], in[2], in[3], "silu");
  });
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].sizes() == expected[i].sizes());
    CHECK((found[i].to(at::kDouble) - expected[i]).norm().item<double>() <=
          3e-6 * expected[i].norm().item<double>());
  }
}

TEST_CASE("a gated layer whose shapes do not match is refused", "[kernels]") {
  const at::Tensor x = at::ones({4, 6});
  const at::Tensor gate = at::ones({8, 6});
  CHECK_THROWS_AS(gated_mlp(x, gate, at::ones({7, 6}), at::ones({6, 8}), "silu"), c10::Error);
  CHECK_THROWS_AS(gated_mlp(x, at::ones({8, 5}), at::ones({8, 5}), at::ones({6, 8}), "silu"),
                  c10::Error);
  CHECK_THROWS_AS(gated_mlp(x, gate, gate, at::ones({6, 7}), "silu"), c10::Error);
}

}  // namespace tenon
