// SPDX-License-Identifier: Apache-2.0
//
// The oracle is libtorch's own cross entropy.
#include "host/metrics/metric_book.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

tenon::LossProxy make_loss(const std::string& options = "{}") {
  return tenon::LossProxy(tenon::make_component("loss", "cross_entropy", options));
}

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

// Labels of all classes, with every fifth ignored.
at::Tensor labels_of(at::IntArrayRef shape, int64_t num_classes, int64_t ignored = -100) {
  at::Tensor labels = at::arange(c10::multiply_integers(shape), at::kLong);
  const at::Tensor is_ignored = labels.remainder(5).eq(4);
  labels = (labels * 7).remainder(num_classes);
  return labels.masked_fill(is_ignored, ignored).reshape(shape);
}

struct Expected {
  at::Tensor sum;
  at::Tensor grad;
};

Expected expected(const at::Tensor& logits,
                  const at::Tensor& labels,
                  double grad_sum,
                  int64_t ignored = -100) {
  const at::Tensor leaf = logits.detach().to(at::kDouble).requires_grad_();
  const at::Tensor sum = at::cross_entropy_loss(leaf.reshape({-1, leaf.size(-1)}),
                                                labels.reshape({-1}).to(at::kLong),
                                                {},
                                                at::Reduction::Sum,
                                                ignored);
  const at::Tensor by_sum = at::scalar_tensor(grad_sum, at::kDouble);
  return {sum.detach(), torch::autograd::grad({sum}, {leaf}, {by_sum})[0]};
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("cross_entropy declares what it needs", "[plugins]") {
  const auto loss = make_loss();
  REQUIRE(loss.info().ports.size() == 3);
  CHECK(loss.info().ports[0].name == "logits");
  CHECK(loss.info().ports[1].name == "labels");
  CHECK(loss.info().ports[2].name == "sample_weight");
  CHECK(loss.info().additive_over == TENON_ADDITIVE_TOKENS);
  CHECK(loss.info().counts_from_batch);
}

TEST_CASE("cross_entropy equals libtorch's, sum and gradient", "[plugins]") {
  const auto loss = make_loss();
  const double grad_sum = 0.125;
  struct Case {
    std::vector<int64_t> shape;
    at::ScalarType dtype;
    double tolerance;
  };
  for (const Case& c : {Case{{3, 17, 11}, at::kDouble, 1e-13},
                        Case{{3, 17, 11}, at::kFloat, 2e-5},
                        Case{{9, 5}, at::kFloat, 1e-5},
                        Case{{2, 40, 256}, at::kFloat, 1e-4},
                        Case{{4, 1}, at::kDouble, 1e-13},
                        Case{{3, 17, 11}, at::kBFloat16, 1e-3},
                        Case{{3, 17, 11}, at::kHalf, 1e-3}}) {  // as where there are no own kernels
    CAPTURE(c.shape, c.dtype);
    const at::Tensor logits = random(c.shape, c.dtype) * 3;
    const at::Tensor labels =
        labels_of(at::IntArrayRef(c.shape).slice(0, c.shape.size() - 1), c.shape.back());
    const Expected want = expected(logits, labels, grad_sum);
    const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()}, grad_sum);
    CHECK(got.sum.scalar_type() == (c.dtype == at::kDouble ? at::kDouble : at::kFloat));
    CHECK(largest_difference(got.sum, want.sum) <= c.tolerance);
    CHECK(got.grads[0].scalar_type() == c.dtype);
    CHECK(got.grads[0].sizes() == logits.sizes());
    CHECK(largest_difference(got.grads[0], want.grad) <= c.tolerance);
    CHECK(got.count == labels.ne(-100).sum().item<double>());
    CHECK(largest_difference(tenon::evaluate_loss(loss, {logits, labels, at::Tensor()}), got.sum) ==
          0.0);
  }
}

TEST_CASE("cross_entropy is exact where a label's probability is all but zero", "[plugins]") {
  const auto loss = make_loss();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor logits = at::tensor({0.0, 90.0, -3000.0, 90.0}, dtype).reshape({1, 4});
    for (const int64_t label : {0, 1, 2}) {
      CAPTURE(label);
      const at::Tensor labels = at::tensor({label});
      const Expected want = expected(logits, labels, 1.0);
      const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
      CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(1e-6));
      CHECK(largest_difference(got.grads[0], want.grad) <= 1e-6);
    }
  }
}

namespace {

// libtorch's smoothing, and the z-loss as it is defined, both in fp64.
Expected expected_with(const at::Tensor& logits,
                       const at::Tensor& labels,
                       double smoothing,
                       double z_loss) {
  const at::Tensor leaf = logits.detach().to(at::kDouble).requires_grad_();
  const at::Tensor rows = leaf.reshape({-1, leaf.size(-1)});
  const at::Tensor flat = labels.reshape({-1});
  const at::Tensor z = rows.logsumexp(-1).masked_select(flat.ne(-100));
  const at::Tensor sum =
      at::cross_entropy_loss(rows, flat, {}, at::Reduction::Sum, -100, smoothing) +
      z_loss * z.pow(2).sum();
  return {sum.detach(), torch::autograd::grad({sum}, {leaf})[0]};
}

}  // namespace

TEST_CASE("cross_entropy's label smoothing and z-loss equal libtorch's operators", "[plugins]") {
  struct Case {
    double smoothing;
    double z_loss;
  };
  for (const Case& c : {Case{0.1, 0.0}, Case{0.0, 1e-2}, Case{0.2, 1e-3}, Case{1.0, 0.0}}) {
    const auto loss = make_loss(R"({"label_smoothing": )" + std::to_string(c.smoothing) +
                                R"(, "z_loss": )" + std::to_string(c.z_loss) + "}");
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      CAPTURE(c.smoothing, c.z_loss, dtype);
      const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 5e-5 : 2e-2;
      const at::Tensor logits = random({3, 17, 11}, dtype) * 3;
      const at::Tensor labels = labels_of({3, 17}, 11);
      const Expected want = expected_with(logits, labels, c.smoothing, c.z_loss);
      const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
      CHECK(largest_difference(got.sum, want.sum) <= tolerance);
      CHECK(largest_difference(got.grads[0], want.grad) <= tolerance);
      CHECK(largest_difference(tenon::evaluate_loss(loss, {logits, labels, at::Tensor()}),
                               got.sum) == 0.0);
      // A weight of 2 for every sample is twice the sum.
      const at::Tensor twice = at::full({3}, 2.0, at::kFloat);
      const tenon::LossResult weighted = tenon::call_loss(loss, {logits, labels, twice});
      CHECK(largest_difference(weighted.sum, want.sum * 2) <= 2 * tolerance);
      CHECK(largest_difference(weighted.grads[0], want.grad * 2) <= 2 * tolerance);
    }
  }
}

TEST_CASE("cross_entropy's label smoothing and z-loss stay exact where logits are far apart",
          "[plugins]") {
  const auto loss = make_loss(R"({"label_smoothing": 0.1, "z_loss": 0.001})");
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor logits = at::tensor({0.0, 90.0, -300.0, 90.0}, dtype).reshape({1, 4});
    for (const int64_t label : {0, 1, 2}) {
      CAPTURE(label);
      const at::Tensor labels = at::tensor({label});
      const Expected want = expected_with(logits, labels, 0.1, 0.001);
      const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
      CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(1e-6));
      CHECK(largest_difference(got.grads[0], want.grad) <= 1e-6);
    }
  }
}

TEST_CASE("cross_entropy's gradient is the slope of its sum, by finite differences", "[plugins]") {
  const auto loss = make_loss(R"({"label_smoothing": 0.15, "z_loss": 0.01})");
  const at::Tensor logits = random({2, 3, 6}, at::kDouble);
  at::Tensor labels = labels_of({2, 3}, 6);
  labels[0][1] = -100;
  const at::Tensor weights = at::tensor({0.75, 2.0}, at::kDouble);
  const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, weights}, 1.5);
  constexpr double kStep = 1e-5;
  const auto sum_at = [&](int64_t i, double step) {
    const at::Tensor moved = logits.clone();
    moved.view(-1)[i] += step;
    return tenon::evaluate_loss(loss, {moved, labels, weights}).item<double>();
  };
  for (int64_t i = 0; i < logits.numel(); ++i) {
    CAPTURE(i);
    const double slope = 1.5 * (sum_at(i, kStep) - sum_at(i, -kStep)) / (2 * kStep);
    CHECK(std::abs(got.grads[0].view(-1)[i].item<double>() - slope) < 1e-8);
  }
}

TEST_CASE("cross_entropy serves any number of classes", "[plugins]") {
  const auto loss = make_loss(R"({"label_smoothing": 0.1, "z_loss": 0.001})");
  for (const int64_t num_classes : {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 1000}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      CAPTURE(num_classes, dtype);
      const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : 4e-3;
      const at::Tensor logits = random({13, num_classes}, dtype) * 2;
      const at::Tensor labels = labels_of({13}, num_classes);
      const Expected want = expected_with(logits, labels, 0.1, 0.001);
      const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
      CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(1e-6).margin(1e-6));
      CHECK(largest_difference(got.grads[0], want.grad) <= tolerance);
    }
  }
}

TEST_CASE("cross_entropy gives the same bits with one and with two threads", "[plugins]") {
  const auto loss = make_loss(R"({"z_loss": 0.001})");
  const int num_threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = random({7, 101, 257}, dtype);
    const at::Tensor labels = labels_of({7, 101}, 257);
    at::set_num_threads(1);
    const tenon::LossResult one = tenon::call_loss(loss, {logits, labels, at::Tensor()});
    at::set_num_threads(2);
    const tenon::LossResult two = tenon::call_loss(loss, {logits, labels, at::Tensor()});
    CHECK(one.sum.equal(two.sum));
    CHECK(one.grads[0].equal(two.grads[0]));
  }
  at::set_num_threads(num_threads);
}

TEST_CASE("cross_entropy hands on a logit that is no number", "[plugins]") {
  const auto loss = make_loss();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    at::Tensor logits = random({2, 40}, dtype);
    logits[1][3] = std::nan("");
    const tenon::LossResult got =
        tenon::call_loss(loss, {logits, at::tensor({1, 2}, at::kLong), at::Tensor()});
    CHECK(std::isnan(got.sum.item<double>()));
    CHECK(got.grads[0][0].isfinite().all().item<bool>());
    CHECK(got.grads[0][1].isnan().all().item<bool>());
  }
}

TEST_CASE("cross_entropy publishes what the z-loss adds to the mean", "[plugins]") {
  const auto loss = make_loss(R"({"z_loss": 0.01})");
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    tenon::MetricBook book;
    const tenon::MetricsInUse in_use(book);
    const at::Tensor logits = random({2, 10, 7}, dtype);
    const at::Tensor labels = labels_of({2, 10}, 7);
    const at::Tensor weights = at::tensor({1.0, 3.0}, at::kFloat);
    tenon::call_loss(loss, {logits, labels, weights});
    const at::Tensor z = logits.to(at::kDouble).logsumexp(-1);
    const at::Tensor w = weights.to(at::kDouble).unsqueeze(1) * labels.ne(-100);
    const double want = 0.01 * (z * z * w).sum().item<double>() / w.sum().item<double>();
    CHECK(book.mean("cross_entropy/z_loss") == Approx(want).epsilon(1e-3));
    {
      const tenon::MetricPrefix prefix("eval/");
      tenon::evaluate_loss(loss, {logits, labels, weights});
    }
    CHECK(book.mean("eval/cross_entropy/z_loss") == Approx(want).epsilon(1e-3));
    CHECK(book.close(1).values.size() == 2);
    tenon::call_loss(make_loss(), {logits, labels, weights});
    CHECK(book.close(2).values.empty());
  }
}

TEST_CASE("options of cross_entropy have limits", "[plugins]") {
  for (const char* const bad : {R"({"label_smoothing": -0.1})",
                                R"({"label_smoothing": 1.1})",
                                R"({"z_loss": -1e-4})",
                                R"({"ignore_index": 0.5})"}) {
    CAPTURE(bad);
    CHECK_FALSE(tenon::options_problem("loss", "cross_entropy", bad).empty());
  }
}

TEST_CASE("cross_entropy weighs the labels of a sample by the sample's weight", "[plugins]") {
  const auto loss = make_loss();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    CAPTURE(dtype);
    const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 1e-5 : 2e-2;
    const at::Tensor logits = random({3, 6, 7}, dtype);
    const at::Tensor labels = labels_of({3, 6}, 7);
    const at::Tensor weights = at::tensor({0.5, 0.0, 2.0}, at::kFloat);
    const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, weights});
    double sum = 0;
    double count = 0;
    for (int64_t b = 0; b < 3; ++b) {
      const double weight = weights[b].item<double>();
      const Expected want = expected(logits[b], labels[b], weight);
      sum += weight * want.sum.item<double>();
      count += weight * labels[b].ne(-100).sum().item<double>();
      CHECK(largest_difference(got.grads[0][b], want.grad) <= tolerance);
    }
    CHECK(got.sum.item<double>() == Approx(sum).epsilon(tolerance));
    CHECK(got.count == count);
  }
}

TEST_CASE("cross_entropy can ignore another value, and labels may be 32 bits wide", "[plugins]") {
  const auto loss = make_loss(R"({"ignore_index": 0})");
  const at::Tensor logits = random({4, 3, 5}, at::kFloat);
  const at::Tensor labels = labels_of({4, 3}, 5, 0);
  const Expected want = expected(logits, labels, 1.0, 0);
  const tenon::LossResult got = tenon::call_loss(loss, {logits, labels.to(at::kInt), at::Tensor()});
  CHECK(largest_difference(got.sum, want.sum) <= 1e-5);
  CHECK(got.count == labels.ne(0).sum().item<double>());
}

TEST_CASE("cross_entropy of ignored labels alone is zero, and so is its gradient", "[plugins]") {
  const auto loss = make_loss();
  const at::Tensor logits = random({2, 3, 5}, at::kFloat);
  const at::Tensor labels = at::full({2, 3}, -100, at::kLong);
  const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
  CHECK(got.sum.item<double>() == 0.0);
  CHECK(got.count == 0.0);
  CHECK(got.grads[0].abs().max().item<double>() == 0.0);
}

TEST_CASE("cross_entropy takes logits that are not contiguous", "[plugins]") {
  const auto loss = make_loss();
  const at::Tensor logits = random({5, 2, 7}, at::kFloat).transpose(0, 1);
  const at::Tensor labels = labels_of({5, 2}, 7).transpose(0, 1);
  const Expected want = expected(logits, labels, 1.0);
  const tenon::LossResult got = tenon::call_loss(loss, {logits, labels, at::Tensor()});
  CHECK(largest_difference(got.sum, want.sum) <= 1e-5);
  CHECK(largest_difference(got.grads[0], want.grad) <= 1e-6);
}

TEST_CASE("the sum of cross_entropy over parts is the sum over the whole", "[plugins]") {
  const auto loss = make_loss();
  const at::Tensor logits = random({8, 12, 9}, at::kDouble);
  const at::Tensor labels = labels_of({8, 12}, 9);
  const double whole = tenon::evaluate_loss(loss, {logits, labels, {}}).item<double>();
  double by_samples = 0;
  double by_tokens = 0;
  for (int64_t i = 0; i < 4; ++i) {
    by_samples +=
        tenon::evaluate_loss(loss, {logits.narrow(0, 2 * i, 2), labels.narrow(0, 2 * i, 2), {}})
            .item<double>();
    by_tokens +=
        tenon::evaluate_loss(loss, {logits.narrow(1, 3 * i, 3), labels.narrow(1, 3 * i, 3), {}})
            .item<double>();
  }
  CHECK(by_samples == Approx(whole).epsilon(1e-14));
  CHECK(by_tokens == Approx(whole).epsilon(1e-14));
}

TEST_CASE("cross_entropy names a label that is out of range, and where it stands", "[plugins]") {
  const auto loss = make_loss();
  const at::Tensor logits = random({2, 3, 5}, at::kFloat);
  for (const int64_t bad : {5, -1, 300}) {
    at::Tensor labels = at::zeros({2, 3}, at::kLong);
    labels[1][1] = bad;
    const std::string error = tenon::error_of([&] {
      tenon::call_loss(loss, {logits, labels, at::Tensor()});
    });
    CHECK_THAT(error,
               tenon::contains_text("label " + std::to_string(bad) +
                                    " at position 4 of labels [2, 3] is neither in [0, 5)"));
  }
}

TEST_CASE("cross_entropy names shapes that do not fit", "[plugins]") {
  const auto loss = make_loss();
  const at::Tensor logits = random({2, 3, 5}, at::kFloat);
  const auto error = [&](const at::Tensor& labels, const at::Tensor& weights) {
    return tenon::error_of([&] { tenon::call_loss(loss, {logits, labels, weights}); });
  };
  CHECK_THAT(error(at::zeros({2, 4}, at::kLong), {}),
             tenon::contains_text("logits of shape [2, 3, 5] and labels of shape [2, 4]"));
  CHECK_THAT(error(at::zeros({2}, at::kLong), {}), tenon::contains_text("do not match"));
  CHECK_THAT(error(at::zeros({2, 3}, at::kLong), at::ones({3})),
             tenon::contains_text("sample_weight of shape [3]"));
}
