// SPDX-License-Identifier: Apache-2.0
//
// Losses of logits whose classes tensor ranks divide. The oracle is libtorch's cross entropy of the
// whole logits, in fp64. Ranks are threads.
#include <tenon/draft/tensor.h>

#include "host/metrics/metric_book.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_tensor_ranks.hpp"

namespace tenon {
namespace {

struct Options {
  double smoothing = 0.0;
  double z_loss = 0.0;
};

LossProxy make_loss(const Options& o) {
  return LossProxy(make_component("loss",
                                  "cross_entropy",
                                  R"({"label_smoothing": )" + std::to_string(o.smoothing) +
                                      R"(, "z_loss": )" + std::to_string(o.z_loss) + "}"));
}

// Sum and gradient of what all ranks have together.
LossResult of_ranks(const Options& o,
                    uint32_t size,
                    const std::vector<at::Tensor>& inputs,
                    double grad_sum = 1.0) {
  std::vector<LossProxy> losses;
  for (uint32_t r = 0; r < size; ++r) {
    losses.push_back(make_loss(o));
  }
  std::vector<LossResult> found(size);
  TensorBoard board(size);
  run_tensor_ranks(board, {}, [&](const TensorRegionPtr& region) {
    const TensorRegionScope scope(region);
    const uint32_t r = region->ranks->rank();
    std::vector<at::Tensor> mine = inputs;
    const int64_t width = mine[0].size(-1) / size;
    mine[0] = mine[0].narrow(-1, r * width, width).contiguous();
    found[r] = call_loss(losses[r], mine, grad_sum);
  });
  CHECK(board.calls().size() == 2);
  LossResult all = found[0];
  std::vector<at::Tensor> grads;
  for (const LossResult& one : found) {
    CHECK(one.sum.equal(all.sum));  // the same bits on all ranks
    CHECK(one.count == all.count);
    grads.push_back(one.grads[0]);
  }
  all.grads[0] = at::cat(grads, -1);
  return all;
}

struct Expected {
  at::Tensor sum;
  at::Tensor grad;
};

Expected expected(const Options& o,
                  const at::Tensor& logits,
                  const at::Tensor& labels,
                  const at::Tensor& weights_N) {
  const at::Tensor leaf = logits.detach().to(at::kDouble).requires_grad_();
  const at::Tensor rows = leaf.reshape({-1, leaf.size(-1)});
  const at::Tensor flat = labels.reshape({-1});
  const at::Tensor each =
      at::cross_entropy_loss(rows, flat, {}, at::Reduction::None, -100, o.smoothing) +
      o.z_loss * rows.logsumexp(-1).square().masked_fill(flat.eq(-100), 0);
  const at::Tensor sum = (each * weights_N).sum();
  return {sum.detach(), torch::autograd::grad({sum}, {leaf})[0]};
}

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  return (at::randn(shape, generator, at::TensorOptions(at::kDouble)) * 3).to(dtype);
}

at::Tensor labels_of(int64_t B, int64_t T, int64_t num_classes) {
  const at::Tensor labels = (at::arange(B * T, at::kLong) * 7).remainder(num_classes).view({B, T});
  return labels.masked_fill(at::arange(B * T).view({B, T}).remainder(5).eq(4), -100);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("cross_entropy of divided classes equals libtorch's", "[plugins]") {
  const auto size = GENERATE(2U, 3U, 4U);
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf);
  const Options o = GENERATE(Options{}, Options{0.1, 0.0}, Options{0.0, 1e-2}, Options{0.2, 1e-3});
  const int64_t num_classes = GENERATE(12, 24, 1200);
  CAPTURE(size, dtype, o.smoothing, o.z_loss, num_classes);
  const double most = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : 5e-3;
  const at::Tensor logits = random({3, 17, num_classes}, dtype);
  const at::Tensor labels = labels_of(3, 17, num_classes);
  const at::Tensor weights = at::tensor({1.0, 0.5, 2.0}, at::kDouble);
  const Expected want =
      expected(o, logits, labels, weights.unsqueeze(1).expand({3, 17}).reshape({-1}));
  const LossResult got = of_ranks(o, size, {logits, labels, weights});
  CHECK(got.sum.scalar_type() == (dtype == at::kDouble ? at::kDouble : at::kFloat));
  CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(most));
  CHECK(got.grads[0].scalar_type() == dtype);
  CHECK(largest_difference(got.grads[0], want.grad) <= most);
  CHECK(got.count == Approx(((labels.ne(-100)) * weights.unsqueeze(1)).sum().item<double>()));
}

TEST_CASE("cross_entropy serves a rank whose classes are all excluded", "[plugins]") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kHalf);
  CAPTURE(dtype);
  at::Tensor logits = random({2, 5, 8}, dtype);
  logits.narrow(2, 4, 4).fill_(-std::numeric_limits<double>::infinity());
  const at::Tensor labels = labels_of(2, 5, 4);
  const Expected want = expected({}, logits, labels, at::ones({10}, at::kDouble));
  const LossResult got = of_ranks({}, 2, {logits, labels, at::Tensor()});
  CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(1e-3));
  CHECK(largest_difference(got.grads[0], want.grad) <= 1e-3);
}

TEST_CASE("cross_entropy of divided classes checks labels against all of them", "[plugins]") {
  const at::Tensor logits = random({1, 3, 8}, at::kFloat);
  const auto with_label = [&](int64_t label) {
    const at::Tensor labels = at::tensor(std::vector<int64_t>{0, 7, label}).view({1, 3});
    of_ranks({}, 2, {logits, labels, at::Tensor()});
  };
  CHECK_NOTHROW(with_label(5));
  CHECK_THAT(error_of([&] { with_label(8); }),
             contains_text("label 8 at position 2 of labels [1, 3] is neither in [0, 8)"));
}

TEST_CASE("the z-loss of divided classes is published whole by each rank", "[plugins]") {
  MetricBook book;
  const MetricsInUse in_use(book);
  const at::Tensor logits = random({2, 6, 8}, at::kDouble);
  const at::Tensor labels = labels_of(2, 6, 8);
  of_ranks({0.0, 0.01}, 2, {logits, labels, at::Tensor()});
  const at::Tensor z = logits.logsumexp(-1).masked_select(labels.ne(-100));
  CHECK(book.mean("cross_entropy/z_loss") == Approx(0.01 * z.square().mean().item<double>()));
}

TEST_CASE("cross_entropy declares that it takes parts of the logits", "[plugins]") {
  CHECK(make_loss({}).info().is_divisible);
}

}  // namespace tenon
