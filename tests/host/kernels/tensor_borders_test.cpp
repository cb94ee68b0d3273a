// SPDX-License-Identifier: Apache-2.0
//
// The operators at the borders of a divided region. Ranks are threads. Whole layers are in
// divided_layer_test.cpp.
#include "host/kernels/tensor_borders.hpp"

#include <tenon/torch/ops.hpp>

#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/host/kernels/region_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// The gradient of `leaf` for a gradient of `y`.
at::Tensor gradient(const at::Tensor& y, const at::Tensor& leaf, const at::Tensor& grad_y) {
  return torch::autograd::grad({y}, {leaf}, {grad_y})[0];
}

at::Tensor counted_up(const std::vector<int64_t>& shape) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).view(shape);
}

}  // namespace

TEST_CASE("without a region, the borders return their input", "[kernels]") {
  register_operators();
  const at::Tensor x = made(1, {2, 3}).requires_grad_();
  CHECK(ops::tensor_in(x).is_same(x));
  CHECK(ops::tensor_out(x).is_same(x));
  CHECK(ops::sum_over(x, 3, 3).is_same(x));
  CHECK(ops::max_over(x).equal(x));
  CHECK_FALSE(ops::max_over(x).requires_grad());
  TensorBoard board(1);  // a group of one rank
  in_regions(board, {3}, [&](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor y = ops::tensor_out(ops::tensor_in(x));
    expect(y.is_same(x) && !tensor_region() && region->number == 0, "one rank has no region");
    return {};
  });
  CHECK(board.calls().empty());
}

TEST_CASE("a block can ask which rank it runs on", "[kernels]") {
  register_operators();
  CHECK(ops::tensor_rank() == 0);
  CHECK(ops::tensor_size() == 1);
  in_regions(3, {}, [&](const TensorRegionPtr& region) -> Tensors {
    expect(ops::tensor_rank() == region->ranks->rank() && ops::tensor_size() == 3,
           "the place of the region");
    return {};
  });
}

TEST_CASE("attention with dropout is refused in a region", "[kernels]") {
  register_operators();
  const at::Tensor q = made(1, {1, 3, 2, 4});
  const at::Tensor qkv = made(1, {1, 3, 24});
  in_regions(2, {}, [&](const TensorRegionPtr&) -> Tensors {
    for (const bool is_packed : {false, true}) {
      std::string refused;
      try {
        const ops::Attention dropped{.dropout = 0.5};
        is_packed ? ops::packed_attention(qkv, 2, 2, dropped) : ops::attention(q, q, q, dropped);
      } catch (const c10::Error& error) {
        refused = error.what_without_backtrace();
      }
      expect(refused.find("dropout of attention weights is not possible where ranks divide the "
                          "heads") != std::string::npos,
             "dropout is refused");
    }
    return {};
  });
}

TEST_CASE("without pieces, values enter as they are and leave as a sum", "[kernels]") {
  const uint32_t size = GENERATE(2u, 3u);
  const double sum = size == 2 ? 3.0 : 6.0;  // of 1 + rank
  const at::Tensor x = made(1, {2, 3});
  const auto got = in_regions(size, {}, [&](const TensorRegionPtr& region) -> Tensors {
    const double factor = 1.0 + static_cast<double>(rank_of(region));
    const at::Tensor leaf = x.clone().requires_grad_();
    const at::Tensor in = ops::tensor_in(leaf);
    const at::Tensor out = ops::tensor_out(in * factor);
    return {in, out, gradient(out, leaf, at::ones_like(x))};
  });
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(x));
    CHECK(of_rank[1].allclose(sum * x, 1e-15));
    CHECK(of_rank[2].allclose(at::full_like(x, sum), 1e-15));
  }
}

TEST_CASE("with pieces, positions are gathered and sums are scattered", "[kernels]") {
  const Lengths pieces =
      GENERATE(values<Lengths>({{2, 2}, {3, 2}, {1, 0, 2}, {0, 4}, {1, 1, 1, 0}}));
  CAPTURE(pieces);
  const int64_t T = c10::sum_integers(pieces);
  const auto size = static_cast<uint32_t>(pieces.size());
  const at::Tensor x = counted_up({2, T, 3});
  const at::Tensor ids = at::arange(2 * T, at::kInt).view({2, T});
  const at::Tensor grad_y = made(2, {2, T, 3});
  const double sum = size * (size + 1) / 2.0;  // of 1 + rank
  TensorBoard board(size);
  const auto got = in_regions(board, pieces, [&](const TensorRegionPtr& region) -> Tensors {
    const auto cut = [&](const at::Tensor& of) { return held_by(region, of); };
    const at::Tensor leaf = cut(x).clone().requires_grad_();
    const at::Tensor in = ops::tensor_in(leaf);
    const at::Tensor out = ops::tensor_out(in * (1.0 + static_cast<double>(rank_of(region))));
    return {
        in, out, gradient(out, leaf, cut(grad_y)), ops::tensor_in(cut(ids)), cut(x), cut(grad_y)};
  });
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(x));
    CHECK(of_rank[1].sizes() == of_rank[4].sizes());
    CHECK(of_rank[1].allclose(sum * of_rank[4], 1e-15));
    CHECK(of_rank[2].allclose(sum * of_rank[5], 1e-14));
    CHECK(of_rank[3].equal(ids));
    CHECK(of_rank[3].scalar_type() == at::kInt);
  }
  CHECK(board.calls() == std::vector<std::string>{"block 'layers.3', tensor_in 1",
                                                  "block 'layers.3', tensor_out 2",
                                                  "block 'layers.3', backward of tensor_out 2",
                                                  "block 'layers.3', backward of tensor_in 1",
                                                  "block 'layers.3', tensor_in 3"});
}

TEST_CASE("tensors without elements are not sent", "[kernels]") {
  TensorBoard board(2);
  const auto got = in_regions(board, {0, 0}, [](const TensorRegionPtr&) -> Tensors {
    const at::Tensor leaf = at::zeros({2, 0, 3}).requires_grad_();
    const at::Tensor y = ops::tensor_out(ops::tensor_in(leaf));
    return {gradient(y, leaf, at::zeros_like(leaf)), ops::sum_over(at::zeros({0}), 1, 2)};
  });
  CHECK(got[0][0].sizes() == at::IntArrayRef({2, 0, 3}));
  CHECK(board.calls().empty());
}

TEST_CASE("sum_over counts each element once, and is its own gradient", "[kernels]") {
  // Ranks share heads: two ranks have each of two.
  const auto got = in_regions(4, {}, [](const TensorRegionPtr& region) -> Tensors {
    const double head = static_cast<double>(region->ranks->rank() / 2);
    const at::Tensor leaf = at::full({2}, 1.0 + head, at::kDouble).requires_grad_();
    const at::Tensor y = ops::sum_over(leaf, 5, 10);
    // Each rank uses the sum in another way.
    return {
        y,
        gradient(y, leaf, at::full({2}, 1.0 + static_cast<double>(rank_of(region)), at::kDouble))};
  });
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(at::full({2}, 3.0, at::kDouble)));
    // The sum over both copies is the whole gradient, 1 + 2 + 3 + 4.
    CHECK(of_rank[1].equal(at::full({2}, 5.0, at::kDouble)));
  }
}

TEST_CASE("sum_over refuses elements that ranks do not have equally often", "[kernels]") {
  register_operators();
  const at::Tensor x = made(1, {2});
  CHECK_THROWS_WITH(ops::sum_over(x, 2, 4),
                    contains_text("tenon::sum_over: 1 ranks with 2 elements each do not have 4 "
                                  "elements equally often"));
  CHECK_THROWS_WITH(ops::sum_over(x, 0, 0), contains_text("1 ranks with 0 elements"));
  CHECK_THROWS_WITH(ops::sum_over(at::ones({2}, at::kLong), 2, 2), contains_text("x is Long"));
  CHECK_THROWS_WITH(
      in_regions(
          3, {}, [&](const TensorRegionPtr&) -> Tensors { return {ops::sum_over(x, 3, 6)}; }),
      contains_text("3 ranks with 3 elements each do not have 6"));
}

TEST_CASE("max_over is the maximum over ranks, without a gradient", "[kernels]") {
  const auto got = in_regions(3, {}, [](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor x = made(1 + region->ranks->rank(), {4}).requires_grad_();
    const at::Tensor y = ops::max_over(x);
    expect(!y.requires_grad(), "the maximum has no gradient");
    return {y};
  });
  const at::Tensor want = at::stack({made(1, {4}), made(2, {4}), made(3, {4})}).amax(0);
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(want));
  }
}

TEST_CASE("narrow dtypes are summed in fp32", "[kernels]") {
  const auto got = in_regions(4, {}, [](const TensorRegionPtr& region) -> Tensors {
    // 1 + 2^-8 rounds to 1 in bf16, but 1 + 3 * 2^-8 to 1 + 2^-6.
    return {ops::tensor_out(at::full({1, 1}, rank_of(region) == 0 ? 1.0 : 0x1p-8, at::kBFloat16))};
  });
  CHECK(got[3][0].item<double>() == 1.0 + 0x1p-6);
}

TEST_CASE("tensor_in converts as autocast says, also on one rank", "[kernels]") {
  register_operators();
  const at::Tensor x = made(1, {2, 3, 4}).to(at::kFloat);
  const at::Tensor ids = at::zeros({2, 3}, at::kLong);
  {
    const Autocast autocast;
    CHECK(ops::tensor_in(x).scalar_type() == at::kBFloat16);
    CHECK(ops::tensor_in(ids).is_same(ids));
    CHECK(ops::tensor_in(x.to(at::kDouble)).scalar_type() == at::kDouble);
  }
  const auto got = in_regions(2, {2, 1}, [&](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor leaf = held_by(region, x).clone().requires_grad_();
    at::Tensor y;
    {
      const Autocast autocast;
      y = ops::tensor_in(leaf);
    }
    return {y, gradient(y, leaf, at::ones_like(y))};
  });
  CHECK(got[1][0].equal(x.to(at::kBFloat16)));
  CHECK(got[1][1].equal(at::full({2, 1, 4}, 2.0f)));
}

TEST_CASE("a result that entered may not be written", "[kernels]") {
  // Written in place on one rank, x is the result, and autograd sees it.
  CHECK_THROWS_WITH(in_regions(2,
                               {},
                               [](const TensorRegionPtr&) -> Tensors {
                                 const at::Tensor x = made(1, {2, 2}).requires_grad_() * 2.0;
                                 ops::tensor_in(x).mul_(2.0);
                                 return {};
                               }),
                    contains_text("is a view"));
}

TEST_CASE("a backward may run on a thread that is in no region", "[kernels]") {
  const Lengths pieces = GENERATE(values<Lengths>({{}, {1, 2}}));
  const auto got = in_regions(2, pieces, [&](const TensorRegionPtr& region) -> Tensors {
    const int64_t T = pieces.empty() ? 3 : pieces[region->ranks->rank()];
    const at::Tensor leaf = at::ones({1, T}, at::kDouble).requires_grad_();
    const at::Tensor in = ops::tensor_in(leaf);
    const at::Tensor y = ops::tensor_out(in * ops::sum_over(in, 1, 2));
    at::Tensor grad;
    std::jthread([&] { grad = gradient(y, leaf, at::ones_like(y)); }).join();
    return {grad};
  });
  // y = 2 (x_r * 2 x_r / 1) summed over equal ranks: 4 x^2 each position.
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(at::full_like(of_rank[0], 8.0)));
  }
}

TEST_CASE("the borders have second derivatives", "[kernels]") {
  const Lengths pieces = GENERATE(values<Lengths>({{}, {2, 0, 1}}));
  const uint32_t size = 3;
  const at::Tensor x = made(1, {1, 3, 2});
  const at::Tensor weight = made(2, {6, 2});
  // The gradient of the square of the gradient of sum(tanh(x W^T)^2).
  const auto second = [](const at::Tensor& leaf, const at::Tensor& y) {
    const at::Tensor slope =
        torch::autograd::grad({y.sum()}, {leaf}, {}, std::nullopt, /*create_graph=*/true)[0];
    return torch::autograd::grad({slope.square().sum()}, {leaf})[0];
  };
  const at::Tensor whole = x.clone().requires_grad_();
  const at::Tensor want = second(whole, at::matmul(at::tanh(at::linear(whole, weight)), weight));
  const auto got = in_regions(size, pieces, [&](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor w = weight.narrow(0, 2 * rank_of(region), 2);
    const at::Tensor leaf = held_by(region, x).clone().requires_grad_();
    const at::Tensor y =
        ops::tensor_out(at::matmul(at::tanh(at::linear(ops::tensor_in(leaf), w)), w));
    return {second(leaf, y), held_by(region, want)};
  });
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].allclose(of_rank[1], 1e-12, 1e-12));
  }
}

TEST_CASE("other numbers of positions are refused with block, rank and positions", "[kernels]") {
  const auto message = [](const Lengths& pieces, const std::function<void()>& body) {
    std::string text;
    try {
      in_regions(2, pieces, [&](const TensorRegionPtr&) -> Tensors {
        body();
        return {};
      });
    } catch (const c10::Error& e) {
      text = e.what_without_backtrace();
    }
    return text;
  };
  // Ranks fail alike, but either may fail first.
  const std::string in = message({3, 3}, [] { ops::tensor_in(at::zeros({2, 6, 4})); });
  CHECK_THAT(in,
             contains_text("block 'layers.3', tensor_in 1: a tensor is [2, 6, 4]; expected 3 "
                           "positions on axis 1 (rank "));
  CHECK_THAT(in, contains_text(" of 2 holds positions "));
  CHECK_THAT(message({3, 3},
                     [] {
                       ops::tensor_out(at::zeros({2, 3}));
                     }),
             contains_text("tensor_out 1: a tensor is [2, 3]; expected 6 positions"));
  CHECK_THAT(message({0, 0}, [] { ops::tensor_in(at::zeros({4})); }),
             contains_text("tensor_in 1: a tensor is [4]; expected 0 positions on axis 1 (rank "));
  CHECK_THAT(message({0, 0}, [] { ops::tensor_in(at::zeros({4})); }),
             contains_text("holds no positions of 0)"));
}

TEST_CASE("a second device is refused", "[kernels]") {
  CHECK_THROWS_WITH(in_regions(2,
                               {},
                               [](const TensorRegionPtr&) -> Tensors {
                                 ops::tensor_out(at::zeros({2}));
                                 ops::tensor_out(at::zeros({2}, at::kMeta));
                                 return {};
                               }),
                    contains_text("block 'layers.3', tensor_out 2: a tensor is on meta; expected "
                                  "cpu, as in earlier calls of the block"));
}

TEST_CASE("another order of calls is named by block and operator", "[kernels]") {
  const auto fails = [](const std::function<Tensors(uint32_t rank)>& body) {
    TensorBoard board(2, std::chrono::seconds(20));
    try {
      in_regions(board, {}, [&](const TensorRegionPtr& region) -> Tensors {
        return body(region->ranks->rank());
      });
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(fails([](uint32_t rank) -> Tensors {
          const at::Tensor x = at::zeros({1, 2});
          return {rank == 0 ? ops::tensor_out(x) : ops::sum_over(x, 1, 2)};
        }) ==
        "rank 0 is in block 'layers.3', tensor_out 1 of [1, 2], rank 1 in block 'layers.3', "
        "sum_over 1 of [1, 2]");
  // Rank 1 enters in the other order: autograd then leaves in another one.
  CHECK(fails([](uint32_t rank) -> Tensors {
          const at::Tensor a = at::zeros({1, 2}).requires_grad_();
          const at::Tensor b = at::zeros({1, 3}).requires_grad_();
          at::Tensor sum;
          if (rank == 0) {
            sum = ops::tensor_in(a).sum();
            sum = sum + ops::tensor_in(b).sum();
          } else {
            sum = ops::tensor_in(b).sum();
            sum = sum + ops::tensor_in(a).sum();
          }
          return torch::autograd::grad({sum}, {a, b});
        }) ==
        "rank 0 is in block 'layers.3', backward of tensor_in 2 of [1, 3], rank 1 in block "
        "'layers.3', backward of tensor_in 2 of [1, 2]");
}

TEST_CASE("scopes nest, and none may be in a scope", "[kernels]") {
  in_regions(2, {}, [](const TensorRegionPtr& region) -> Tensors {
    expect(tensor_region() == region, "the region is in scope");
    {
      const TensorRegionScope none(nullptr);
      expect(!tensor_region(), "there is no region");
    }
    expect(tensor_region() == region, "the inner scope ended");
    return {};
  });
  CHECK_FALSE(static_cast<bool>(tensor_region()));
}

}  // namespace tenon
