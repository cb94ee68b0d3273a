// SPDX-License-Identifier: Apache-2.0
//
// The metrics `accuracy`, `bits_per_byte` and `perplexity`, against figures counted by hand and
// libtorch's cross entropy.
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/train/objective/metric_state.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace {

using Batches = std::vector<std::pair<at::Tensor, at::Tensor>>;  // logits and labels

double metric(const std::string& type, const Batches& batches, const std::string& options = "{}") {
  const tenon::MetricProxy metric(tenon::make_component("metric", type, options));
  const tenon_exec exec = tenon::make_exec(metric.instance());
  tenon::MetricState state(metric);
  for (const auto& [logits, labels] : batches) {
    const tenon_tensor* const inputs[] = {tenon::borrow(logits), tenon::borrow(labels)};
    state.update(exec, inputs, 2, at::kCPU);
  }
  return state.compute(exec).at(0);
}

// Largest classes of the rows: 2, 0, 1, 2; second: 1, 2, 0, 0.
at::Tensor four_logits(at::ScalarType dtype = at::kFloat) {
  return at::tensor({0.0, 1.0, 2.0, 5.0, 0.0, 1.0, 0.5, 2.0, -1.0, 1.0, -3.0, 4.0}, at::kDouble)
      .reshape({4, 3})
      .to(dtype);
}

}  // namespace

TEST_CASE("accuracy is the share of labels with the largest logit", "[plugins]") {
  const at::Tensor labels = at::tensor({2, 0, 0, 1}, at::kLong);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    CAPTURE(dtype);
    CHECK(metric("accuracy", {{four_logits(dtype), labels}}) == 0.5);
    CHECK(metric("accuracy", {{four_logits(dtype), labels.to(at::kInt)}}) == 0.5);
  }
  CHECK(metric("accuracy", {{four_logits().reshape({2, 2, 3}), labels.reshape({2, 2})}}) == 0.5);
}

TEST_CASE("accuracy of the top 2 takes the second too", "[plugins]") {
  const at::Tensor labels = at::tensor({2, 2, 0, 1}, at::kLong);
  CHECK(metric("accuracy", {{four_logits(), labels}}) == 0.25);
  CHECK(metric("accuracy", {{four_logits(), labels}}, R"({"top_k": 2})") == 0.75);
}

TEST_CASE("accuracy is over labels, not over batches, and leaves the ignored out", "[plugins]") {
  const at::Tensor logits = four_logits();
  const at::Tensor labels = at::tensor({2, 0, -100, 1}, at::kLong);
  CHECK(metric("accuracy", {{logits, labels}}) == Approx(2.0 / 3).epsilon(1e-15));
  CHECK(metric("accuracy",
               {{logits.narrow(0, 0, 1), labels.narrow(0, 0, 1)},
                {logits.narrow(0, 1, 3), labels.narrow(0, 1, 3)}}) ==
        Approx(2.0 / 3).epsilon(1e-15));
  CHECK(metric("accuracy", {{logits, labels}}, R"({"ignore_index": 1})") ==
        Approx(2.0 / 3).epsilon(1e-15));
  CHECK(std::isnan(metric("accuracy", {{logits, at::full({4}, -100, at::kLong)}})));
}

TEST_CASE("accuracy of one class against none is by the side of 0", "[plugins]") {
  const at::Tensor logits = at::tensor({0.5, -2.0, 3.0, -0.1, 0.0});
  const at::Tensor labels = at::tensor({1.0, 0.0, 0.0, 1.0, 0.0});
  CHECK(metric("accuracy", {{logits, labels}}) == Approx(0.6).epsilon(1e-15));
  CHECK_THAT(tenon::error_of([&] {
               metric("accuracy", {{logits, labels}}, R"({"top_k": 2})");
             }),
             tenon::contains_text("requires top_k 1"));
}

TEST_CASE("metrics name shapes that do not fit", "[plugins]") {
  const at::Tensor labels = at::zeros({3}, at::kLong);
  for (const char* type : {"accuracy", "perplexity"}) {
    CHECK_THAT(tenon::error_of([&] {
                 metric(type, {{four_logits(), labels}});
               }),
               tenon::contains_text("logits of shape [4, 3] and labels of shape [3] do not match"));
  }
  CHECK_THAT(tenon::error_of([&] {
               metric("accuracy", {{four_logits(), at::zeros({4}, at::kLong)}}, R"({"top_k": 3})");
             }),
             tenon::contains_text("top_k is 3, but the logits have only 3 classes"));
}

TEST_CASE("perplexity is exp of the mean cross entropy", "[plugins]") {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor logits = at::randn({6, 5, 7}, generator, at::kDouble) * 3;
  at::Tensor labels = at::arange(30, at::kLong).remainder(7).reshape({6, 5});
  labels.index_put_({at::tensor({0, 3}), at::tensor({1, 4})}, -100);
  const double want = std::exp(
      at::cross_entropy_loss(logits.reshape({-1, 7}), labels.reshape({-1})).item<double>());
  CHECK(metric("perplexity", {{logits, labels}}) == Approx(want).epsilon(1e-13));
  CHECK(metric("perplexity", {{logits.to(at::kFloat), labels}}) == Approx(want).epsilon(1e-6));
  CHECK(metric("perplexity", {{logits.to(at::kBFloat16), labels}}) == Approx(want).epsilon(3e-2));
  CHECK(metric("perplexity",
               {{logits.narrow(0, 0, 1), labels.narrow(0, 0, 1)},
                {logits.narrow(0, 1, 5), labels.narrow(0, 1, 5)}}) == Approx(want).epsilon(1e-13));
  CHECK(std::isnan(metric("perplexity", {{logits, at::full({6, 5}, -100, at::kLong)}})));
}

TEST_CASE("bits per byte are the bits of all labels, divided by their bytes", "[plugins]") {
  // Probabilities of the labels: 1/2, 1/4, and 1/8 of one that is ignored.
  const at::Tensor logits =
      at::log(at::tensor({0.5, 0.25, 0.25, 0.25, 0.5, 0.25, 0.125, 0.125, 0.75}, at::kDouble))
          .reshape({1, 3, 3});
  const at::Tensor labels = at::tensor({0, 2, -100}, at::kLong).reshape({1, 3});
  const at::Tensor bytes = at::tensor({4, 0, 7}, at::kLong).reshape({1, 3});
  const tenon::MetricProxy proxy(tenon::make_component("metric", "bits_per_byte", "{}"));
  const tenon_exec exec = tenon::make_exec(proxy.instance());
  const auto value = [&](const std::vector<std::pair<int64_t, int64_t>>& pieces,
                         const at::Tensor& of_bytes) {
    tenon::MetricState state(proxy);
    for (const auto& [first, length] : pieces) {
      const at::Tensor parts[] = {logits.narrow(1, first, length),
                                  labels.narrow(1, first, length),
                                  of_bytes.narrow(1, first, length)};
      const tenon_tensor* const inputs[] = {
          tenon::borrow(parts[0]), tenon::borrow(parts[1]), tenon::borrow(parts[2])};
      state.update(exec, inputs, 3, at::kCPU);
    }
    return state.compute(exec).at(0);
  };
  CHECK(value({{0, 3}}, bytes) == Approx(3.0 / 4).epsilon(1e-14));
  CHECK(value({{0, 1}, {1, 2}}, bytes) == Approx(3.0 / 4).epsilon(1e-14));
  CHECK(value({{0, 3}}, bytes.to(at::kInt)) == Approx(3.0 / 4).epsilon(1e-14));
  CHECK(std::isnan(value({{0, 3}}, at::zeros({1, 3}, at::kLong))));
  CHECK_THAT(
      tenon::error_of([&] {
        value({{0, 3}}, at::ones({2, 3}, at::kLong));
      }),
      tenon::contains_text("label_bytes of shape [2, 3] and labels of shape [1, 3] do not match"));
}

TEST_CASE("metrics count in training only where they are told to", "[plugins]") {
  for (const char* type : {"accuracy", "bits_per_byte", "perplexity"}) {
    const auto periods = [&](const char* options) {
      return tenon::MetricProxy(tenon::make_component("metric", type, options)).info().periods;
    };
    CHECK(periods("{}") == 0);
    CHECK(periods(R"({"train": "step"})") == TENON_PERIOD_STEP);
    CHECK(periods(R"({"train": "window"})") == TENON_PERIOD_WINDOW);
    CHECK(periods(R"({"train": "run"})") == TENON_PERIOD_RUN);
  }
}
