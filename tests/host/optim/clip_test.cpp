// SPDX-License-Identifier: Apache-2.0
//
// Against torch.nn.utils.clip_grad_norm_ by its formula, and by hand; tests/parity has runs of
// PyTorch itself.
#include "host/optim/clip.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<FlatGroup> two_groups() {
  std::vector<FlatGroup> groups;
  groups.emplace_back(
      "a", at::kDouble, at::kCPU, std::vector<FlatParameter>{{.id = 0, .shape = {2}}});
  groups.emplace_back(
      "b", at::kFloat, at::kCPU, std::vector<FlatParameter>{{.id = 1, .shape = {1}}});
  groups[0].add_grad(0, at::tensor({3.0, 4.0}, at::kDouble));
  groups[1].add_grad(0, at::tensor({12.0f}));
  return groups;
}

}  // namespace

TEST_CASE("the norm is that of all gradients together", "[optim]") {
  auto groups = two_groups();
  CHECK(grad_norm(groups) == Approx(13).epsilon(1e-12));
  std::vector<FlatGroup> none;
  CHECK(grad_norm(none) == 0);
  const GradientNorms norms = device_grad_norms(groups);
  CHECK(norms.all.item<double>() == Approx(13).epsilon(1e-12));
  CHECK(at::allclose(norms.by_entry, at::tensor({5.0, 12.0}, at::kDouble)));
  CHECK(device_grad_norms(none).all.item<double>() == 0);
}

TEST_CASE("the norm is finite if and only if all gradients are", "[optim]") {
  auto groups = two_groups();
  groups[1].grad_view(0).fill_(std::numeric_limits<float>::max());
  CHECK(grad_norm(groups) == Approx(std::numeric_limits<float>::max()));  // its square is not fp32
  groups[0].grad_view(0).fill_(1e300);
  CHECK(grad_norm(groups) == Approx(std::sqrt(2.0) * 1e300));  // its square is not fp64
  for (const double value : {kInf, -kInf, kNan}) {
    for (size_t g = 0; g < 2; ++g) {
      auto spoilt = two_groups();
      spoilt[g].grad_view(0)[0].fill_(value);
      CHECK_FALSE(std::isfinite(grad_norm(spoilt)));
      CHECK_FALSE(std::isfinite(device_grad_norms(spoilt).all.item<double>()));
    }
  }
}

TEST_CASE("clipping by norm scales down what is too long, and leaves the rest", "[optim]") {
  auto groups = two_groups();
  clip_grad_norm(groups, grad_norm(groups), 6.5);
  CHECK(groups[0].grad_view(0)[0].item<double>() == Approx(3 * 6.5 / (13 + 1e-6)).epsilon(1e-12));
  CHECK(groups[1].grad_view(0)[0].item<double>() == Approx(12 * 6.5 / (13 + 1e-6)).epsilon(1e-6));
  auto by_tensor = two_groups();
  clip_grad_norm(by_tensor, device_grad_norms(by_tensor).all, 6.5);
  CHECK(at::allclose(by_tensor[0].grad(), groups[0].grad(), 1e-12));
  auto short_ones = two_groups();
  clip_grad_norm(short_ones, grad_norm(short_ones), 100);
  CHECK(short_ones[0].grad_view(0)[1].item<double>() == 4);
}

TEST_CASE("clipping by value cuts each element", "[optim]") {
  auto groups = two_groups();
  clip_grad_value(groups, 3.5);
  CHECK(groups[0].grad_view(0)[0].item<double>() == 3);
  CHECK(groups[0].grad_view(0)[1].item<double>() == 3.5);
  CHECK(groups[1].grad_view(0)[0].item<double>() == 3.5);
}

TEST_CASE("clipping by a value beyond the dtype changes nothing", "[optim]") {
  auto groups = two_groups();
  const at::Tensor before = groups[0].grad().clone();
  clip_grad_value(groups, 1e308);
  CHECK(at::equal(groups[0].grad(), before));
}

}  // namespace tenon
