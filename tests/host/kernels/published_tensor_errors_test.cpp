// SPDX-License-Identifier: Apache-2.0
//
// Errors that training programs have had where ranks divide parameters, as reported in public. Each
// case has the right number, ours, and the one that the error gives (docs/ranks.md, "Published
// errors"). Ranks are threads.
#include <tenon/torch/ops.hpp>

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/host/kernels/region_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_error.hpp"

namespace tenon {
namespace {

constexpr uint32_t kRanks = 2;

// This rank's part of x along an axis.
at::Tensor own(const TensorRegionPtr& region, const at::Tensor& x, int64_t axis) {
  return x.chunk(kRanks, axis)[static_cast<size_t>(rank_of(region))].contiguous();
}

// What all ranks compute alike.
double number_of(const OfRank& body) {
  const std::vector<Tensors> got = in_regions(kRanks, {}, body);
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].allclose(got[0][0], 1e-14, 1e-14));
  }
  return got[0][0].item<double>();
}

// What the first rank computes.
double number_of_first(const OfRank& body) {
  return in_regions(kRanks, {}, body)[0][0].item<double>();
}

at::Tensor gradient_of(const at::Tensor& y, const at::Tensor& leaf) {
  return torch::autograd::grad({y}, {leaf}, {made(99, y.sizes().vec())})[0];
}

at::Tensor leaf_of(const at::Tensor& x) {
  return x.clone().requires_grad_(true);
}

// A head of 8 classes, with the labels of 6 rows.
struct Head {
  static constexpr int64_t kClasses = 8;

  at::Tensor x = made(1, {6, 4});
  at::Tensor weight = made(2, {kClasses, 4});
  at::Tensor labels = at::arange(6);

  at::Tensor logits() const { return at::linear(x, weight); }
  double loss(double smoothing) const {
    return at::cross_entropy_loss(logits(), labels, {}, at::Reduction::Mean, -100, smoothing)
        .item<double>();
  }
};

enum class Entry { kBorder, kNone };

at::Tensor entered(const at::Tensor& x, Entry entry) {
  return entry == Entry::kBorder ? ops::tensor_in(x) : x;
}

}  // namespace

TEST_CASE("published: gathered logits in a loss of divided classes", "[kernels]") {
  const Head head;
  const auto loss = [&](const at::Tensor& weight, int64_t num_classes) {
    return ops::cross_entropy_over(ops::tensor_in(head.x), weight, head.labels, num_classes).mean();
  };
  const double ours = number_of([&](const TensorRegionPtr& region) -> Tensors {
    return {loss(own(region, head.weight, 0), Head::kClasses)};
  });
  // Each rank takes all classes for its part.
  const double error = number_of([&](const TensorRegionPtr&) -> Tensors {
    return {loss(head.weight, Head::kClasses * kRanks)};
  });
  check_published({.right = head.loss(0.0), .ours = ours, .error = error},
                  {.ours = 3.349, .error = 4.042});
  CHECK(error - ours == Approx(std::log(2.0)));
}

TEST_CASE("published: label smoothing over the classes of a rank", "[kernels]") {
  const Head head;
  constexpr double kSmoothing = 0.1;
  const double ours = number_of([&](const TensorRegionPtr& region) -> Tensors {
    return {ops::cross_entropy_over(ops::tensor_in(head.x),
                                    own(region, head.weight, 0),
                                    head.labels,
                                    Head::kClasses,
                                    std::nullopt,
                                    {.label_smoothing = kSmoothing})
                .mean()};
  });
  const at::Tensor logits = head.logits();
  const at::Tensor of_rank = logits.narrow(1, 0, Head::kClasses / kRanks);
  const at::Tensor error =
      logits.logsumexp(1) -
      (1 - kSmoothing) * logits.gather(1, head.labels.unsqueeze(1)).squeeze(1) -
      kSmoothing * of_rank.mean(1);
  check_published(
      {.right = head.loss(kSmoothing), .ours = ours, .error = error.mean().item<double>()},
      {.ours = 3.338, .error = 3.368});
}

TEST_CASE("published: a bias on the partial output of each rank", "[kernels]") {
  const at::Tensor x = made(1, {3, 8});
  const at::Tensor weight = made(2, {5, 8});
  const at::Tensor bias = made(3, {5});
  const auto partial = [&](const TensorRegionPtr& region) {
    return at::linear(own(region, x, 1), own(region, weight, 1));
  };
  const double ours = number_of([&](const TensorRegionPtr& region) -> Tensors {
    return {(ops::tensor_out(partial(region)) + bias).norm()};
  });
  const double error = number_of([&](const TensorRegionPtr& region) -> Tensors {
    return {ops::tensor_out(partial(region) + bias).norm()};
  });
  check_published(
      {.right = at::linear(x, weight, bias).norm().item<double>(), .ours = ours, .error = error},
      {.ours = 8.104, .error = 8.410});
}

TEST_CASE("published: a norm over all heads on the heads of a rank", "[kernels]") {
  constexpr int64_t kWidth = 8;
  const at::Tensor query = made(1, {3, kWidth});
  const at::Tensor weight = made(2, {5, kWidth});
  const auto projected = [&](const TensorRegionPtr& region, const at::Tensor& mean_square) {
    return ops::tensor_out(
               at::linear(own(region, query, 1) * mean_square.rsqrt(), own(region, weight, 1)))
        .norm();
  };
  const double ours = number_of([&](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor sum = own(region, query, 1).square().sum(1, true);
    return {projected(region, ops::sum_over(sum, kWidth / kRanks, kWidth) / kWidth)};
  });
  const double error = number_of([&](const TensorRegionPtr& region) -> Tensors {
    return {projected(region, own(region, query, 1).square().mean(1, true))};
  });
  const at::Tensor whole = at::linear(query * query.square().mean(1, true).rsqrt(), weight);
  check_published({.right = whole.norm().item<double>(), .ours = ours, .error = error},
                  {.ours = 8.798, .error = 7.922});
}

TEST_CASE("published: the shared rotated key of latent attention on each rank", "[kernels]") {
  const at::Tensor queries = made(1, {3, 8, 4});  // positions, heads, features
  const auto scores = [](const at::Tensor& of_heads, const at::Tensor& key) {
    return at::einsum("qhr,kr->qk", {of_heads, key});
  };
  const auto gradient = [&](Entry entry) -> OfRank {
    return [&, entry](const TensorRegionPtr& region) -> Tensors {
      const at::AutoGradMode record(true);
      const at::Tensor key = leaf_of(made(2, {3, 4}));
      const at::Tensor y =
          ops::tensor_out(scores(own(region, queries, 1), entered(key, entry)).tanh());
      return {gradient_of(y, key).norm()};
    };
  };
  const at::AutoGradMode record(true);
  const at::Tensor key = leaf_of(made(2, {3, 4}));
  const Tensors of_heads = queries.chunk(kRanks, 1);
  const at::Tensor whole = scores(of_heads[0], key).tanh() + scores(of_heads[1], key).tanh();
  check_published({.right = gradient_of(whole, key).norm().item<double>(),
                   .ours = number_of(gradient(Entry::kBorder)),
                   .error = number_of_first(gradient(Entry::kNone))},
                  {.ours = 6.958, .error = 5.648});
}

namespace {

// A mixture of two experts of inner width 8, which ranks divide, with gates from a router.
struct Mixture {
  at::Tensor x = made(1, {5, 4});
  at::Tensor router = made(2, {2, 4});
  at::Tensor up = made(3, {2, 8, 4});
  at::Tensor down = made(4, {2, 4, 8});

  // The output, or its part, for input and gates that have entered.
  static at::Tensor of(const at::Tensor& x,
                       const at::Tensor& gates,
                       const at::Tensor& up,
                       const at::Tensor& down) {
    const at::Tensor inner = at::einsum("nd,xid->xni", {x, up}).sigmoid();
    return at::einsum("xni,xdi,nx->nd", {inner, down, gates});
  }
  static at::Tensor gates(const at::Tensor& x, const at::Tensor& router) {
    return at::linear(x, router).softmax(1);
  }

  // The norm of the gradient by the input or the router.
  OfRank gradient(bool of_router, Entry input, Entry gate) const {
    return [this, of_router, input, gate](const TensorRegionPtr& region) -> Tensors {
      const at::AutoGradMode record(true);
      const at::Tensor x_leaf = leaf_of(x);
      const at::Tensor router_leaf = leaf_of(router);
      const at::Tensor y = ops::tensor_out(of(entered(x_leaf, input),
                                              entered(gates(x_leaf, router_leaf), gate),
                                              own(region, up, 1),
                                              own(region, down, 2)));
      return {gradient_of(y, of_router ? router_leaf : x_leaf).norm()};
    };
  }
  double whole_gradient(bool of_router) const {
    const at::AutoGradMode record(true);
    const at::Tensor x_leaf = leaf_of(x);
    const at::Tensor router_leaf = leaf_of(router);
    const at::Tensor y = of(x_leaf, gates(x_leaf, router_leaf), up, down);
    return gradient_of(y, of_router ? router_leaf : x_leaf).norm().item<double>();
  }
};

}  // namespace

TEST_CASE("published: gradients of the input of divided experts", "[kernels]") {
  const Mixture mixture;
  check_published({.right = mixture.whole_gradient(false),
                   .ours = number_of(mixture.gradient(false, Entry::kBorder, Entry::kBorder)),
                   .error = number_of_first(mixture.gradient(false, Entry::kNone, Entry::kBorder))},
                  {.ours = 3.525, .error = 2.618});
}

TEST_CASE("published: gradients of the router of divided experts", "[kernels]") {
  const Mixture mixture;
  check_published({.right = mixture.whole_gradient(true),
                   .ours = number_of(mixture.gradient(true, Entry::kBorder, Entry::kBorder)),
                   .error = number_of_first(mixture.gradient(true, Entry::kBorder, Entry::kNone))},
                  {.ours = 1.850, .error = 1.493});
}

}  // namespace tenon
