// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/linear_map.hpp"

#include "host/kernels/gated_mlp.hpp"
#include "host/kernels/head_loss.hpp"
#include "host/kernels/linear.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <utility>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// x (u v^T)^T without u v^T.
class Outer final : public LinearMap {
 public:
  Outer(at::Tensor u, at::Tensor v) : u_(std::move(u)), v_(std::move(v)) {}
  at::Tensor product(const at::Tensor& x) const override {
    ++num_products;
    return at::matmul(x, v_).unsqueeze(-1) * u_;
  }
  at::Tensor weight() const override {
    ++num_weights;
    return at::outer(u_, v_);
  }

  mutable int num_products = 0;
  mutable int num_weights = 0;

 private:
  at::Tensor u_;
  at::Tensor v_;
};

at::Tensor numbers(at::IntArrayRef shape, double step) {
  return at::sin(at::arange(c10::multiply_integers(shape)).to(at::kFloat) * step).view(shape);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a - b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("linear and gated_mlp take the products of stand-ins", "[kernels]") {
  const at::Tensor x = numbers({2, 5, 8}, 0.7).requires_grad_(true);
  const at::Tensor u = numbers({6}, 0.3).requires_grad_(true);
  const at::Tensor v = numbers({8}, 0.9);
  const at::Tensor plain = numbers({4, 8}, 0.11);
  const at::Tensor bias = numbers({16}, 0.5);
  const Outer map(u, v);
  const at::Tensor stand_in = make_stand_in({6, 8}, at::kFloat);
  LinearMapScope scope;
  scope.add(stand_in, map);
  CHECK(linear_map_of(stand_in) == &map);
  CHECK(linear_map_of(plain) == nullptr);

  const at::Tensor y = linear(x, {plain, stand_in, stand_in}, bias, "silu");
  const at::Tensor expected =
      at::silu(at::linear(x, at::cat({plain, map.weight(), map.weight()}), bias));
  CHECK(difference(y, expected) < 1e-5);
  const at::Tensor g = numbers(y.sizes(), 1.3);
  const auto got = torch::autograd::grad({y}, {x, u}, {g});
  const auto want = torch::autograd::grad({expected}, {x, u}, {g});
  CHECK(difference(got[0], want[0]) < 1e-4);
  CHECK(difference(got[1], want[1]) < 1e-4);
  CHECK(map.num_products == 2);

  const at::Tensor down = numbers({3, 6}, 0.21);
  const at::Tensor gate = numbers({6, 8}, 0.4);
  const at::Tensor fed = gated_mlp(x, gate, stand_in, down, "silu");
  CHECK(difference(fed,
                   at::linear(at::silu(at::linear(x, gate)) * at::linear(x, map.weight()), down)) <
        1e-5);
}

TEST_CASE("operators that read elements get the whole matrix of a stand-in", "[kernels]") {
  const Outer map(numbers({9}, 0.3), numbers({4}, 0.9));
  const at::Tensor x = numbers({7, 4}, 0.7);
  const at::Tensor labels = at::arange(7);
  const at::Tensor stand_in = make_stand_in({9, 4}, at::kFloat);
  at::Tensor with_stand_in;
  {
    LinearMapScope scope;
    scope.add(stand_in, map);
    with_stand_in = token_logps(x, stand_in, labels, std::nullopt, -100, 1.0);
  }
  CHECK(map.num_weights == 1);
  const at::Tensor expected = token_logps(x, map.weight(), labels, std::nullopt, -100, 1.0);
  CHECK(at::equal(with_stand_in, expected));
  CHECK(linear_map_of(stand_in) == nullptr);
}

TEST_CASE("a stand-in has no elements to compute with by mistake", "[kernels]") {
  const Outer map(numbers({6}, 0.3), numbers({8}, 0.9));
  const at::Tensor stand_in = make_stand_in({6, 8}, at::kFloat);
  LinearMapScope scope;
  scope.add(stand_in, map);
  const at::Tensor x = numbers({2, 8}, 0.7);
  bool is_noticed = false;
  try {
    is_noticed = at::linear(x, stand_in).is_meta();
  } catch (const c10::Error&) {
    is_noticed = true;
  }
  CHECK(is_noticed);
  CHECK_THROWS_AS(linear(numbers({2, 5}, 0.7), {stand_in}, std::nullopt, "none"), c10::Error);
}

}  // namespace tenon
