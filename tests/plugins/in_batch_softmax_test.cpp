// SPDX-License-Identifier: Apache-2.0
//
// Pairs with in-batch wrong answers, against the formula written out sample by sample.
#include "host/plugin/loss_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"

namespace tenon {
namespace {

LossProxy softmax(const std::string& options = "{}") {
  return LossProxy(make_component("loss", "in_batch_softmax", options));
}

at::Tensor queries() {
  return at::sin(at::arange(12).to(at::kDouble)).view({4, 3});
}
at::Tensor no_copies() {
  return at::arange(4);
}
at::Tensor items() {
  return at::cos(at::arange(12).to(at::kDouble) * 1.7).view({4, 3});
}

struct Given {
  double temperature = 1.0;
  std::vector<int64_t> ids = {0, 1, 2, 3};
  std::vector<double> log_q = {0, 0, 0, 0};
  std::vector<double> weight = {1, 1, 1, 1};
};

double by_hand(const Given& given) {
  const at::Tensor scores = at::matmul(queries(), items().t()) / given.temperature;
  double total = 0;
  for (size_t i = 0; i < 4; ++i) {
    const auto score = [&](size_t j) {
      return scores[static_cast<int64_t>(i)][static_cast<int64_t>(j)].item<double>() -
             given.log_q[j];
    };
    double sum = 0;
    for (size_t j = 0; j < 4; ++j) {
      if (j == i || given.ids[j] != given.ids[i]) {
        sum += std::exp(score(j));
      }
    }
    total += given.weight[i] * (std::log(sum) - score(i));
  }
  return total;
}

}  // namespace

TEST_CASE("each query finds its item among those of the batch", "[plugins]") {
  const LossResult result =
      call_loss(softmax(R"({"temperature": 0.5})"), {queries(), items(), no_copies(), {}, {}});
  CHECK(result.count == 4.0);
  CHECK(result.sum.scalar_type() == at::kDouble);
  CHECK(result.sum.item<double>() == Approx(by_hand({.temperature = 0.5})).epsilon(1e-12));
  CHECK(
      call_loss(softmax(), {queries().to(at::kFloat), items().to(at::kFloat), no_copies(), {}, {}})
          .sum.item<double>() == Approx(by_hand({})).epsilon(1e-5));
}

TEST_CASE("copies of a query's own item are no wrong answers, and frequent items are no worse ones",
          "[plugins]") {
  const Given copies = {.ids = {5, 6, 5, 7}};
  const at::Tensor ids = at::tensor({5, 6, 5, 7}, at::kLong);
  CHECK(call_loss(softmax(), {queries(), items(), ids, {}, {}}).sum.item<double>() ==
        Approx(by_hand(copies)).epsilon(1e-12));
  Given corrected = copies;
  corrected.log_q = {0.3, -1.0, 0.3, 2.0};
  const at::Tensor log_q = at::tensor(corrected.log_q, at::kDouble);
  CHECK(call_loss(softmax(), {queries(), items(), ids, log_q, {}}).sum.item<double>() ==
        Approx(by_hand(corrected)).epsilon(1e-12));
  Given counted = copies;
  counted.log_q = {std::log(2.0), 0, std::log(2.0), 0};
  CHECK(call_loss(softmax(R"({"log_q_from_batch": true})"), {queries(), items(), ids, {}, {}})
            .sum.item<double>() == Approx(by_hand(counted)).epsilon(1e-12));
}

TEST_CASE("a query with a weight counts as much as that", "[plugins]") {
  const Given weighted = {.weight = {2.0, 0.0, 0.5, 1.0}};
  const LossResult result = call_loss(
      softmax(), {queries(), items(), no_copies(), {}, at::tensor(weighted.weight, at::kDouble)});
  CHECK(result.count == 3.5);
  CHECK(result.sum.item<double>() == Approx(by_hand(weighted)).epsilon(1e-12));
}

TEST_CASE("the gradient of pairs is that of small differences", "[plugins]") {
  const at::Tensor ids = at::tensor({5, 6, 5, 7}, at::kLong);
  const LossProxy loss = softmax(R"({"temperature": 0.3, "log_q_from_batch": true})");
  const std::vector<at::Tensor> leaves = {queries().requires_grad_(), items().requires_grad_()};
  const tenon_tensor* const handles[] = {
      borrow(leaves[0]), borrow(leaves[1]), borrow(ids), nullptr, nullptr};
  const at::Tensor sum = take_handle(loss.compute(make_exec(loss.instance()), handles, 5));
  const auto grads = torch::autograd::grad({sum}, leaves);
  for (const size_t input : {0, 1}) {
    for (int64_t i = 0; i < 12; ++i) {
      constexpr double kStep = 1e-6;
      const auto moved = [&](double by) {
        std::vector<at::Tensor> inputs = {queries(), items(), ids, {}, {}};
        inputs[input].view({-1})[i] += by;
        return evaluate_loss(loss, inputs).item<double>();
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      CHECK(grads[input].reshape({-1})[i].item<double>() == Approx(slope).margin(1e-7));
    }
  }
  CHECK_THAT(error_of([&] {
               call_loss(loss, {queries(), items().slice(0, 0, 3), ids, {}, {}});
             }),
             contains_text("items of shape [3, 3]"));
}

}  // namespace tenon
