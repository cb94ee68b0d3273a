// SPDX-License-Identifier: Apache-2.0
//
// Against torch.nn.utils.clip_grad_norm_ by its formula, and by hand; tests/parity has runs of
// PyTorch itself.
#include "host/optim/clip.hpp"

#include "host/optim/gradient_norm.hpp"

#include <ATen/Functions.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

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
