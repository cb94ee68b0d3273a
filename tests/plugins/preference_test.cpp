// SPDX-License-Identifier: Apache-2.0
//
// Losses on pairs of answers and on two distributions, against their formulas written out, and
// their gradients against finite differences in fp64.
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

LossProxy loss_of(const std::string& type, const std::string& options) {
  return LossProxy(make_component("loss", type, options));
}

// Two samples: one with one pair and padding, one with two pairs.
at::Tensor segments() {
  return at::tensor({0, 0, 0, 1, 1, 2, 2, 2, 0, 1, 2, 2, 3, 3, 3, 3}, at::kLong).view({2, 8});
}
at::Tensor labels() {
  return at::tensor({-100, 4, 5, -100, 6, -100, -100, -100, 1, 2, -100, 3, -100, 7, 8, 9},
                    at::kLong)
      .view({2, 8});
}
// 0 where a label is ignored, as models give them.
at::Tensor logps(double shift) {
  const at::Tensor all = (at::sin(at::arange(16).to(at::kDouble) * 1.3 + shift) - 1.5).view({2, 8});
  return all * labels().ne(-100);
}

double element(const at::Tensor& x, int64_t b, int64_t t) {
  return x[b][t].item<double>();
}

struct Pair {
  double chosen = 0;
  double rejected = 0;
  double num_chosen = 0;
  double num_rejected = 0;
};

std::vector<Pair> pairs_of(const at::Tensor& x) {
  return {{element(x, 0, 1) + element(x, 0, 2), element(x, 0, 4), 2, 1},
          {element(x, 1, 0), element(x, 1, 1), 1, 1},
          {element(x, 1, 3), element(x, 1, 5) + element(x, 1, 6) + element(x, 1, 7), 1, 3}};
}

double log_sigmoid(double x) {
  return -std::log1p(std::exp(-x));
}

double log_odds(double x) {
  return x - std::log(-std::expm1(x));
}

double by_hand(const std::string& type, double beta, double s, double gamma) {
  const auto policy = pairs_of(logps(0));
  const auto reference = pairs_of(logps(0.4));
  double sum = 0;
  for (size_t i = 0; i < policy.size(); ++i) {
    const Pair& p = policy[i];
    const double c = p.chosen - reference[i].chosen;
    const double r = p.rejected - reference[i].rejected;
    const double mean_c = p.chosen / p.num_chosen;
    const double mean_r = p.rejected / p.num_rejected;
    if (type == "ipo") {
      sum += std::pow(c / p.num_chosen - r / p.num_rejected - 1 / (2 * beta), 2);
    } else if (type == "orpo") {
      sum += -mean_c - beta * log_sigmoid(log_odds(mean_c) - log_odds(mean_r));
    } else {
      const double margin = type == "dpo" ? beta * (c - r) : beta * (mean_c - mean_r) - gamma;
      sum += -(1 - s) * log_sigmoid(margin) - s * log_sigmoid(-margin);
    }
  }
  return sum;
}

std::vector<at::Tensor> inputs_of(const std::string& type) {
  std::vector<at::Tensor> inputs = {logps(0), labels(), segments()};
  if (type == "dpo" || type == "ipo") {
    inputs.push_back(logps(0.4));
  }
  return inputs;
}

// Central differences of the sum by the first input.
at::Tensor differences(const LossProxy& loss, const std::vector<at::Tensor>& inputs) {
  constexpr double kStep = 1e-5;
  at::Tensor gradient = at::zeros_like(inputs[0]);
  for (int64_t i = 0; i < gradient.numel(); ++i) {
    const auto sum_at = [&](double step) {
      std::vector<at::Tensor> moved = inputs;
      moved[0] = inputs[0].clone();
      moved[0].view({-1})[i] += step;
      return evaluate_loss(loss, moved).item<double>();
    };
    gradient.view({-1})[i] = (sum_at(kStep) - sum_at(-kStep)) / (2 * kStep);
  }
  return gradient;
}

}  // namespace

TEST_CASE("losses on pairs are their formulas, summed over pairs", "[plugins]") {
  struct Case {
    std::string type;
    std::string options;
    double beta = 0.1;
    double smoothing = 0;
    double gamma = 0.5;
  };
  const auto one = GENERATE(values<Case>({
      {"dpo", R"({})"},
      {"dpo", R"({"beta": 0.7, "label_smoothing": 0.2})", 0.7, 0.2},
      {"ipo", R"({"type": "ipo", "beta": 0.3})", 0.3},
      {"orpo", R"({"type": "orpo", "beta": 0.4})", 0.4},
      {"simpo", R"({"type": "simpo", "beta": 2.0})", 2.0},
      {"simpo",
       R"({"type": "simpo", "beta": 2, "gamma": 1.5, "label_smoothing": 0.1})",
       2,
       0.1,
       1.5},
  }));
  CAPTURE(one.options);
  const LossProxy loss = loss_of("preference", one.options);
  const auto inputs = inputs_of(one.type);
  const LossResult result = call_loss(loss, inputs, 1.7);
  CHECK(result.count == 3);
  CHECK(result.sum.item<double>() ==
        Approx(by_hand(one.type, one.beta, one.smoothing, one.gamma)).epsilon(1e-12));
  const at::Tensor expected = differences(loss, inputs) * 1.7;
  CHECK((result.grads[0] - expected).abs().max().item<double>() < 1e-7);
  CHECK(result.grads[0].ne(0).logical_and(labels().eq(-100)).sum().item<int64_t>() == 0);
}

TEST_CASE("answers that are no pairs are an error that names the sample", "[plugins]") {
  const LossProxy loss = loss_of("preference", R"({"type": "simpo"})");
  at::Tensor lonely = labels();
  lonely[1][1] = -100;
  CHECK_THROWS_WITH(call_loss(loss, {logps(0), lonely, segments()}),
                    contains_text("sample 1 of the batch has 3 answers"));
  CHECK_THROWS_WITH(
      call_loss(loss, {logps(0), labels(), segments().narrow(1, 0, 4)}),
      contains_text("segment_ids of shape [2, 4] do not match labels of shape [2, 8]"));
}

TEST_CASE("options of a preference that have no effect are refused", "[plugins]") {
  CHECK_THROWS_WITH(loss_of("preference", R"({"type": "ipo", "label_smoothing": 0.1})"),
                    contains_text("label_smoothing has no effect"));
  CHECK_THROWS_WITH(loss_of("preference", R"({"gamma": 0.5})"),
                    contains_text("gamma has an effect on the type simpo only"));
}

TEST_CASE("distill is the divergence over labelled positions", "[plugins]") {
  const std::string type = GENERATE("forward_kl", "reverse_kl");
  const double temperature = GENERATE(1.0, 2.5);
  CAPTURE(type, temperature);
  const LossProxy loss =
      loss_of("distill",
              R"({"type": ")" + type + R"(", "temperature": )" + std::to_string(temperature) + "}");
  const at::Tensor model = at::sin(at::arange(30).to(at::kDouble)).view({2, 3, 5}) * 3;
  const at::Tensor reference = at::cos(at::arange(30).to(at::kDouble) * 1.7).view({2, 3, 5}) * 3;
  const at::Tensor marks = at::tensor({1, -100, 2, 3, 4, -100}, at::kLong).view({2, 3});
  const at::Tensor log_q = at::log_softmax(model / temperature, -1);
  const at::Tensor log_p = at::log_softmax(reference / temperature, -1);
  const at::Tensor by_token = type == "forward_kl" ? (log_p.exp() * (log_p - log_q)).sum(-1)
                                                   : (log_q.exp() * (log_q - log_p)).sum(-1);
  const LossResult result = call_loss(loss, {model, reference, marks}, 0.6);
  CHECK(result.count == 4);
  CHECK(result.sum.item<double>() ==
        Approx((by_token * marks.ne(-100)).sum().item<double>()).epsilon(1e-12));
  const at::Tensor expected = differences(loss, {model, reference, marks}) * 0.6;
  CHECK((result.grads[0] - expected).abs().max().item<double>() < 1e-7);
  CHECK(result.grads[0][0][1].abs().sum().item<double>() == 0);
}

TEST_CASE("models of other vocabularies cannot be distilled", "[plugins]") {
  const LossProxy loss = loss_of("distill", "{}");
  CHECK_THROWS_WITH(
      call_loss(loss, {at::zeros({1, 2, 5}), at::zeros({1, 2, 6}), at::zeros({1, 2}, at::kLong)}),
      contains_text("both models must have the same vocabulary"));
}

}  // namespace tenon
