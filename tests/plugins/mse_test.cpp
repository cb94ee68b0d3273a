// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"

TEST_CASE("mse sums squared errors and counts elements", "[plugins]") {
  const tenon::LossProxy mse(tenon::make_component("loss", "mse"));
  CHECK(mse.info().counts_from_batch);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor logits = at::tensor({1.0, 2.0, 4.0, 0.5}, dtype).reshape({2, 2});
    const at::Tensor targets = at::tensor({1.0, 1.0, 1.0, 1.0}, dtype).reshape({2, 2});
    const tenon::LossResult result = tenon::call_loss(mse, {logits, targets});
    CHECK(result.sum.scalar_type() == dtype);
    CHECK(result.sum.item<double>() == 0.0 + 1.0 + 9.0 + 0.25);
    CHECK(result.count == 4.0);
    CHECK(at::allclose(result.grads[0], 2 * (logits - targets)));
  }
}

TEST_CASE("mse takes half precision and whole numbers, and sums in fp32", "[plugins]") {
  const tenon::LossProxy mse(tenon::make_component("loss", "mse"));
  const at::Tensor logits = at::tensor({0.5, 3.0}).to(at::kBFloat16);
  const at::Tensor targets = at::tensor({1, 5}, at::kLong);
  const tenon::LossResult result = tenon::call_loss(mse, {logits, targets});
  CHECK(result.sum.scalar_type() == at::kFloat);
  CHECK(result.sum.item<double>() == 4.25);
  CHECK(result.grads[0].scalar_type() == at::kBFloat16);
}

TEST_CASE("mse does not mind a last axis of size 1, and any other difference", "[plugins]") {
  const tenon::LossProxy mse(tenon::make_component("loss", "mse"));
  const at::Tensor three = at::tensor({1.0, 2.0, 3.0});
  const at::Tensor zeros = at::zeros({3});
  CHECK(tenon::call_loss(mse, {three.reshape({3, 1}), zeros}).sum.item<double>() == 14.0);
  CHECK(tenon::call_loss(mse, {three, zeros.reshape({3, 1})}).sum.item<double>() == 14.0);
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(mse, {three, at::zeros({1, 3})});
             }),
             tenon::contains_text("logits of shape [3] and targets of shape [1, 3]"));
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(mse, {three, at::zeros({1})});
             }),
             tenon::contains_text("do not match"));
}
