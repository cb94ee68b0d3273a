// SPDX-License-Identifier: Apache-2.0
//
// Products that keep what the maker of their input keeps, instead of the input.
#include <tenon/torch/ops.hpp>

#include "host/kernels/gated_mlp.hpp"
#include "host/kernels/linear_map.hpp"

#include <string>
#include <utility>
#include <vector>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

constexpr double kEps = 1e-5;

struct Norm {
  std::string name;
  Operator result;  // of x and a parameter
};

std::vector<Norm> norms() {
  return {{"rms_norm", [](const Tensors& in) { return ops::rms_norm(in[0], in[1], kEps); }},
          {"add_rms_norm",
           [](const Tensors& in) {
             return std::get<1>(ops::add_rms_norm(in[0], in[0] * 0.5, in[1], kEps));
           }},
          {"layer_norm",
           [](const Tensors& in) { return ops::layer_norm(in[0], in[1], in[1] - 1.0, kEps); }},
          {"layer_norm without weight",
           [](const Tensors& in) { return ops::layer_norm(in[0], {}, in[1], kEps); }}};
}

// A product of the norm's result, the first input; the others are weights.
struct Product {
  std::string name;
  std::vector<std::vector<int64_t>> weights;
  Operator result;
};

std::vector<Product> products() {
  const at::Tensor experts = at::arange(12, at::kLong).remainder(3).view({6, 2});
  return {{"linear", {{7, 8}}, [](const Tensors& in) { return ops::linear(in[0], {in[1]}); }},
          {"joined linear",
           {{7, 8}, {4, 8}},
           [](const Tensors& in) {
             return ops::linear(in[0], {in[1], in[2]});
           }},
          {"gated_mlp",
           {{9, 8}, {9, 8}, {8, 9}},
           [](const Tensors& in) { return ops::gated_mlp(in[0], in[1], in[2], in[3]); }},
          {"expert_mlp", {{3, 9, 8}, {3, 9, 8}, {3, 8, 9}}, [experts](const Tensors& in) {
             const at::Tensor x = in[0].flatten(0, 1);
             return ops::expert_mlp(x, in[1], in[2], in[3], experts, at::ones({6, 2}));
           }}};
}

// Whether nothing else keeps the tensor or its memory.
bool is_unshared(const at::Tensor& x) {
  return x.use_count() == 1 && x.storage().use_count() == 1;
}

// A matrix behind a stand-in. Tells whether anything keeps the last input of its product.
class Mapped final : public LinearMap {
 public:
  Mapped(at::Tensor weight, bool copies) : weight_(std::move(weight)), copies_(copies) {}
  at::Tensor product(const at::Tensor& x) const override {
    const at::Tensor in = copies_ ? x * 1.0 : x;
    input_ = c10::weak_intrusive_ptr<c10::TensorImpl>(in.getIntrusivePtr());
    return ops::linear(in, {weight_});
  }
  at::Tensor weight() const override { return weight_; }
  bool keeps_input() const { return !input_.expired(); }

 private:
  at::Tensor weight_;
  bool copies_;
  mutable c10::weak_intrusive_ptr<c10::TensorImpl> input_{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
};

Tensors inputs_of(const Product& product) {
  Tensors inputs = {made(1, {2, 3, 8}), made(2, {8})};
  for (size_t i = 0; i < product.weights.size(); ++i) {
    inputs.push_back(made(static_cast<int>(3 + i), product.weights[i]));
  }
  return inputs;
}

at::Tensor product_of(const Product& product, const at::Tensor& x, const Tensors& in) {
  Tensors of = {x};
  of.insert(of.end(), in.begin() + 2, in.end());
  return product.result(of);
}

}  // namespace

TEST_CASE("a product of a norm's result keeps no copy of it and has the same gradients") {
  for (const Norm& norm : norms()) {
    for (const Product& product : products()) {
      CAPTURE(norm.name, product.name);
      const Tensors inputs = inputs_of(product);
      bool is_free = false;
      const auto by = [&](bool keeps) {
        const Operator op = [&, keeps](const Tensors& in) {
          at::Tensor x = norm.result(in);
          if (keeps) {
            x = x * 1.0;  // no norm's result
          }
          const at::Tensor y = product_of(product, x, in);
          is_free = is_unshared(x);
          return y;
        };
        return run(op, inputs, at::kFloat);
      };
      const Tensors found = by(false);
      CHECK(is_free);
      check_equal(found, by(true));
      CHECK_FALSE(is_free);
    }
  }
}

TEST_CASE("a stand-in for a gated layer's last weight keeps gate and up, not their product") {
  const Tensors inputs = {made(1, {2, 3, 8}), made(2, {9, 8}), made(3, {9, 8}), made(4, {7, 9})};
  const auto layer = [&](bool copies) {
    return run(
        [&](const Tensors& in) {
          const Mapped down(in[3], copies);
          const at::Tensor stand_in = make_stand_in({7, 9}, at::kFloat);
          LinearMapScope scope;
          scope.add(stand_in, down);
          const at::Tensor y = gated_mlp(in[0], in[1], in[2], stand_in, "silu");
          CHECK(down.keeps_input() == copies);
          return y;
        },
        inputs,
        at::kFloat);
  };
  check_equal(layer(false), layer(true));
}

TEST_CASE("a norm's result that was changed is kept as it is") {
  const Product product = products()[0];
  const Tensors inputs = inputs_of(product);
  const auto doubled = [&](bool in_place) {
    return run(
        [&](const Tensors& in) {
          at::Tensor x = ops::rms_norm(in[0], in[1], kEps);
          x = in_place ? x.mul_(2.0) : x * 2.0;
          return product_of(product, x, in);
        },
        inputs,
        at::kFloat);
  };
  check_equal(doubled(true), doubled(false));
}

TEST_CASE("a part of a norm's result is kept as it is") {
  const Tensors inputs = {made(1, {2, 3, 8}), made(2, {8}), made(3, {7, 4})};
  const auto of_part = [&](bool as_copy) {
    return run(
        [&](const Tensors& in) {
          const at::Tensor x = ops::rms_norm(in[0], in[1], kEps).narrow(2, 2, 4);
          return ops::linear(as_copy ? x.contiguous() * 1.0 : x, {in[2]});
        },
        inputs,
        at::kFloat);
  };
  check_equal(of_part(false), of_part(true));
}

TEST_CASE("a product of a norm's result can be used after the norm's backward") {
  register_operators();
  const at::AutoGradMode record(true);
  const at::Tensor x = made(1, {3, 8}).to(at::kFloat).requires_grad_(true);
  const at::Tensor weight = made(2, {8}).to(at::kFloat).requires_grad_(true);
  const at::Tensor matrix = made(3, {7, 8}).to(at::kFloat).requires_grad_(true);
  const at::Tensor normed = ops::rms_norm(x, weight, kEps);
  torch::autograd::grad({normed.sum()}, {x});
  const at::Tensor y = ops::linear(normed, {matrix});
  const at::Tensor found = torch::autograd::grad({y.sum()}, {matrix})[0];
  CHECK(at::allclose(found, normed.detach().sum(0).expand({7, 8}), 1e-5, 1e-6));
}

TEST_CASE("a matrix that is not trained keeps nothing of its input") {
  register_operators();
  const at::AutoGradMode record(true);
  const at::Tensor x = made(1, {3, 8}).to(at::kFloat).requires_grad_(true) * 1.0;
  const at::Tensor frozen = made(3, {7, 8}).to(at::kFloat);
  const at::Tensor y = ops::linear(x, {frozen});
  CHECK(is_unshared(x));
  check_near({torch::autograd::grad({y.sum()}, {x})[0]}, {frozen.sum(0).expand({3, 8})}, 1e-6);
}

}  // namespace tenon
