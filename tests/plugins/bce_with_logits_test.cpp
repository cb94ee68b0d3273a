// SPDX-License-Identifier: Apache-2.0
//
// The values are those of PyTorch 2.11, torch.nn.functional.binary_cross_entropy_with_logits in
// fp64.
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

tenon::LossProxy make_bce(const std::string& options = "{}") {
  return tenon::LossProxy(tenon::make_component("loss", "bce_with_logits", options));
}

// Two samples of three labels; the last two logits are where a sigmoid rounds to 1 and 0.
at::Tensor some_logits() {
  return at::tensor({0.5, -2.0, 3.0, -0.25, 40.0, -40.0}, at::kDouble).reshape({2, 3});
}
at::Tensor some_labels() {
  return at::tensor({1.0, 0.0, 0.25, 0.0, 0.0, 1.0}, at::kDouble).reshape({2, 3});
}

struct Case {
  std::string pos_weight;
  bool is_weighted;
  double sum;
  std::vector<double> grads;
};

// With sample_weight, the samples weigh 0.5 and 2.
const std::vector<Case> kCases = {
    {"[]",
     false,
     83.47553176667567,
     {-0.3775406687981454,
      0.11920292202211755,
      0.7025741268224334,
      0.43782349911420193,
      1.0,
      -1.0}},
    {"[]",
     true,
     162.60167501315613,
     {-0.1887703343990727, 0.05960146101105877, 0.3512870634112167, 0.8756469982284039, 2.0, -2.0}},
    {"[3]",
     false,
     164.44797941082274,
     {-1.132622006394436, 0.11920292202211755, 0.6788611902336501, 0.43782349911420193, 1.0, -3.0}},
    {"[3, 0.5, 2]",
     false,
     124.43583257292933,
     {-1.132622006394436, 0.11920292202211755, 0.6907176585280417, 0.43782349911420193, 1.0, -2.0}},
    {"[3, 0.5, 2]",
     true,
     243.08182541628292,
     {-0.566311003197218,
      0.05960146101105877,
      0.34535882926402084,
      0.8756469982284039,
      2.0,
      -4.0}}};

double bce_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("bce_with_logits gives PyTorch's sums and gradients", "[plugins]") {
  for (const Case& c : kCases) {
    const auto loss = make_bce(R"({"pos_weight": )" + c.pos_weight + "}");
    CHECK(loss.info().counts_from_batch);
    const at::Tensor weights = c.is_weighted ? at::tensor({0.5, 2.0}, at::kDouble) : at::Tensor();
    const at::Tensor want = at::tensor(c.grads, at::kDouble).reshape({2, 3});
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      CAPTURE(c.pos_weight, c.is_weighted, dtype);
      const double tolerance = dtype == at::kDouble ? 1e-14 : 1e-6;
      const tenon::LossResult got =
          tenon::call_loss(loss, {some_logits().to(dtype), some_labels(), weights});
      CHECK(got.sum.scalar_type() == dtype);
      CHECK(got.sum.item<double>() == Approx(c.sum).epsilon(tolerance).margin(0));
      CHECK(bce_difference(got.grads[0], want) <= 4 * tolerance);
      CHECK(got.count == (c.is_weighted ? 7.5 : 6.0));
    }
  }
}

TEST_CASE("bce_with_logits of bfloat16 sums in fp32", "[plugins]") {
  const tenon::LossResult got =
      tenon::call_loss(make_bce(), {some_logits().to(at::kBFloat16), some_labels(), {}});
  CHECK(got.sum.scalar_type() == at::kFloat);
  CHECK(got.sum.item<double>() == Approx(kCases[0].sum).epsilon(1e-6));
  CHECK(got.grads[0].scalar_type() == at::kBFloat16);
}

TEST_CASE("bce_with_logits counts nothing for ignored labels", "[plugins]") {
  const auto loss = make_bce();
  at::Tensor labels = some_labels();
  labels[0][2] = -100;
  labels[1] = -100;
  const at::Tensor weights = at::tensor({0.5, 2.0}, at::kDouble);
  const tenon::LossResult got = tenon::call_loss(loss, {some_logits(), labels, weights});
  const tenon::LossResult want = tenon::call_loss(loss,
                                                  {some_logits().slice(0, 0, 1).slice(1, 0, 2),
                                                   some_labels().slice(0, 0, 1).slice(1, 0, 2),
                                                   weights.slice(0, 0, 1)});
  CHECK(got.sum.item<double>() == Approx(want.sum.item<double>()).epsilon(1e-15));
  CHECK(got.count == 1.0);
  CHECK(got.grads[0][0][2].item<double>() == 0.0);
  CHECK(got.grads[0][1].abs().max().item<double>() == 0.0);
  const at::Tensor whole = at::tensor({1, 0, 9}, at::kLong);
  CHECK(tenon::call_loss(make_bce(R"({"ignore_index": 9})"), {at::zeros({3}), whole, {}}).count ==
        2.0);
}

TEST_CASE("bce_with_logits takes bools, and a last axis of size 1", "[plugins]") {
  const auto loss = make_bce(R"({"pos_weight": [3]})");
  const at::Tensor logits = at::tensor({0.5, -2.0, 3.0}, at::kDouble);
  const at::Tensor labels = at::tensor({1.0, 0.0, 1.0}, at::kDouble);
  const double want = tenon::call_loss(loss, {logits, labels, {}}).sum.item<double>();
  const at::Tensor tall = logits.reshape({3, 1});
  CHECK(tenon::call_loss(loss, {tall, labels.to(at::kBool), {}}).sum.item<double>() == want);
  CHECK(tenon::call_loss(loss, {logits, labels.reshape({3, 1}), {}}).sum.item<double>() == want);
}

TEST_CASE("bce_with_logits names what does not fit", "[plugins]") {
  const auto error = [](const std::string& options, const std::vector<at::Tensor>& inputs) {
    const auto loss = make_bce(options);
    return tenon::error_of([&] { tenon::call_loss(loss, inputs); });
  };
  CHECK_THAT(error("{}", {at::zeros({2, 3}), at::zeros({3, 2}), {}}),
             tenon::contains_text("logits of shape [2, 3] and labels of shape [3, 2]"));
  CHECK_THAT(error("{}", {at::zeros({3}), at::zeros({1, 3}), {}}),
             tenon::contains_text("do not match"));
  CHECK_THAT(error("{}", {at::zeros({2, 3}), at::zeros({2, 3}), at::ones({3})}),
             tenon::contains_text("sample_weight of shape [3]"));
  CHECK_THAT(error(R"({"pos_weight": [1, 2]})", {at::zeros({2, 3}), at::zeros({2, 3}), {}}),
             tenon::contains_text("`pos_weight` has 2 weights"));
  for (const double bad : {1.5, -1.0, std::nan("")}) {
    at::Tensor labels = at::zeros({2, 3}, at::kDouble);
    labels[1][1] = bad;
    CHECK_THAT(error("{}", {at::zeros({2, 3}), labels, {}}),
               tenon::contains_text("at position 4 of labels [2, 3] is neither in [0, 1]"));
  }
  CHECK_FALSE(tenon::options_problem("loss", "bce_with_logits", R"({"pos_weight": [-1]})").empty());
}
