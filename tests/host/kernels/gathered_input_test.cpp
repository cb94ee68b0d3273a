// SPDX-License-Identifier: Apache-2.0
//
// Products whose input tensor_in gathered from pieces of T: they keep the piece, and gather again.
#include <tenon/torch/ops.hpp>

#include "host/kernels/kept_input.hpp"
#include "host/kernels/tensor_borders.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/host/kernels/operator_run.hpp"
#include "tests/host/kernels/region_rig.hpp"

namespace tenon {
namespace {

const std::string kSecondGather = "block 'layers.3', second gather of tensor_in 1";

// Products of an input, and the shapes of their weights.
struct Products {
  std::string name;
  std::vector<std::vector<int64_t>> weights;
  std::function<at::Tensor(const at::Tensor& x, const Tensors& w)> result;
};

std::vector<Products> all_products() {
  const at::Tensor experts = at::arange(10, at::kLong).remainder(3).view({5, 2});
  return {
      {"linear", {{7, 8}}, [](const auto& x, const auto& w) { return ops::linear(x, {w[0]}); }},
      {"two products",
       {{7, 8}, {7, 8}},
       [](const auto& x, const auto& w) {
         return ops::linear(x, {w[0]}) * ops::linear(x, {w[1]});
       }},
      {"joined weights",
       {{7, 8}, {4, 8}},
       [](const auto& x, const auto& w) {
         return ops::linear(x, {w[0], w[1]});
       }},
      {"gated_mlp",
       {{9, 8}, {9, 8}, {8, 9}},
       [](const auto& x, const auto& w) { return ops::gated_mlp(x, w[0], w[1], w[2]); }},
      {"expert_mlp", {{3, 9, 8}, {3, 9, 8}, {3, 8, 9}}, [experts](const auto& x, const auto& w) {
         return ops::expert_mlp(
             x.flatten(0, 1), w[0], w[1], w[2], experts, at::ones({5, 2}, x.options()));
       }}};
}

enum class Maker { kNone, kRmsNorm, kLayerNorm };
enum class Keeps { kPiece, kWhole };

// What tensor_in receives, from x and a parameter.
at::Tensor made_by(Maker maker, const at::Tensor& x, const at::Tensor& weight) {
  if (maker == Maker::kNone) {
    return x * weight;
  }
  return maker == Maker::kRmsNorm ? ops::rms_norm(x, weight, 1e-5)
                                  : ops::layer_norm(x, weight, {}, 1e-5);
}

struct Run {
  std::vector<Tensors> grads;  // of x, the maker's parameter and the weights, by rank
  std::vector<std::string> calls;
};

// B = 1 and T = 5.
Run run_products(const Products& products, Maker maker, Keeps keeps, const Lengths& pieces) {
  TensorBoard board(static_cast<uint32_t>(pieces.size()));
  Run run;
  run.grads = in_regions(board, pieces, [&](const TensorRegionPtr& region) -> Tensors {
    Tensors leaves = leaves_of({held_by(region, made(1, {1, 5, 8})), made(2, {8})}, at::kFloat);
    for (size_t i = 0; i < products.weights.size(); ++i) {
      leaves.push_back(leaves_of(
          {made(3 + i + 10 * static_cast<uint64_t>(rank_of(region)), products.weights[i])},
          at::kFloat)[0]);
    }
    at::Tensor in = ops::tensor_in(made_by(maker, leaves[0], leaves[1]));
    const auto piece = entered_piece_of(in);
    expect(piece.has_value() &&
               piece->norm.has_value() == (maker != Maker::kNone && leaves[0].numel() > 0),
           "tensor_in keeps the piece, or the input of its norm");
    const at::Tensor of = keeps == Keeps::kPiece ? in : in * 1.0;
    const at::Tensor y = products.result(of, {leaves.begin() + 2, leaves.end()});
    if (keeps == Keeps::kPiece) {
      const c10::weak_intrusive_ptr<c10::TensorImpl> watched(in.getIntrusivePtr());
      in.reset();
      expect(watched.use_count() == 1, "products do not keep the whole");  // `of` alone
    }
    const Tensors grads =
        torch::autograd::grad({y}, leaves, {made(4, y.sizes().vec()).to(at::kFloat)});
    expect(!piece->input->whole.defined(), "the whole is dropped");
    return grads;
  });
  run.calls = board.calls();
  return run;
}

}  // namespace

TEST_CASE("products gather their input again, once, and have the same gradients", "[kernels]") {
  const Maker maker = GENERATE(Maker::kNone, Maker::kRmsNorm, Maker::kLayerNorm);
  const Lengths pieces = GENERATE(values<Lengths>({{3, 2}, {2, 0, 3}}));
  for (const Products& products : all_products()) {
    CAPTURE(static_cast<int>(maker), pieces, products.name);
    const Run piece = run_products(products, maker, Keeps::kPiece, pieces);
    const Run whole = run_products(products, maker, Keeps::kWhole, pieces);
    for (size_t r = 0; r < pieces.size(); ++r) {
      check_equal(piece.grads[r], whole.grads[r]);
    }
    CHECK(std::ranges::count(piece.calls, kSecondGather) == 1);
    CHECK(std::ranges::count(whole.calls, kSecondGather) == 0);
    CHECK(piece.calls.back() == "block 'layers.3', backward of tensor_in 1");
  }
}

TEST_CASE("products with frozen weights do not gather again", "[kernels]") {
  TensorBoard board(2);
  in_regions(board, {1, 1}, [](const TensorRegionPtr&) -> Tensors {
    const at::Tensor x = at::ones({1, 1, 4}).requires_grad_();
    const at::Tensor y = ops::linear(ops::tensor_in(x), {at::ones({3, 4})});
    return torch::autograd::grad({y.sum()}, {x});
  });
  CHECK(board.calls() == std::vector<std::string>{"block 'layers.3', tensor_in 1",
                                                  "block 'layers.3', backward of tensor_in 1"});
}

TEST_CASE("without pieces, products still keep what the norm keeps", "[kernels]") {
  TensorBoard board(2);
  in_regions(board, {}, [](const TensorRegionPtr&) -> Tensors {
    const Tensors leaves =
        leaves_of({made(1, {1, 5, 8}), made(2, {8}), made(3, {7, 8})}, at::kFloat);
    at::Tensor h = ops::rms_norm(leaves[0], leaves[1], 1e-5);
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(h.storage().unsafeGetStorageImpl()));
    const at::Tensor y = ops::linear(ops::tensor_in(h), {leaves[2]});
    h.reset();
    expect(memory.expired(), "nothing keeps the result of the norm");
    return torch::autograd::grad({y.sum()}, leaves);
  });
  CHECK(board.calls() == std::vector<std::string>{"block 'layers.3', backward of tensor_in 1"});
}

TEST_CASE("a gradient that gathers again has a gradient", "[kernels]") {
  const at::Tensor x = made(1, {1, 3, 2});
  const at::Tensor weight = made(2, {4, 2});
  // The gradient by x of the square of the gradient by the weight of sum(x W^T)^3 / 3.
  const auto second = [](const at::Tensor& of, const at::Tensor& w, const at::Tensor& y) {
    const at::Tensor slope = torch::autograd::grad(
        {y.pow(3).sum()}, {w}, {}, /*retain_graph=*/std::nullopt, /*create_graph=*/true)[0];
    return torch::autograd::grad({slope.square().sum()}, {of})[0];
  };
  const Tensors whole = leaves_of({x, weight}, at::kDouble);
  const at::Tensor want = second(whole[0], whole[1], at::linear(whole[0], whole[1]));
  TensorBoard board(2);
  const auto got = in_regions(board, {2, 1}, [&](const TensorRegionPtr& region) -> Tensors {
    const Tensors of =
        leaves_of({held_by(region, x), weight.narrow(0, 2 * rank_of(region), 2)}, at::kDouble);
    const at::Tensor y = ops::linear(ops::tensor_in(of[0]), {of[1]});
    return {second(of[0], of[1], y), held_by(region, want)};
  });
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].allclose(of_rank[1], 1e-12, 1e-12));
  }
  CHECK(std::ranges::count(board.calls(), kSecondGather) == 1);
}

}  // namespace tenon
