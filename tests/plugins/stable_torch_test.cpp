// SPDX-License-Identifier: Apache-2.0
//
// Losses on libtorch's stable ABI: the template loss-cpp-stable, under the name stable_focal, and
// one with its own kernels. The oracle is the same formula on at::Tensor.
#include "host/plugin/loss_proxy.hpp"
#include "host/tensor/handle_pool.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/subprocess.hpp"

namespace {

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

tenon::LossProxy focal(double gamma) {
  return tenon::LossProxy(
      tenon::make_component("loss", "stable_focal", "{\"gamma\": " + std::to_string(gamma) + "}"));
}

// The formula at the top of the template.
tenon::LossResult expected_focal(const at::Tensor& logits, const at::Tensor& labels, double gamma) {
  const at::Tensor leaf = logits.detach().to(at::kDouble).requires_grad_();
  const at::Tensor index = labels.clamp_min(0).unsqueeze(-1);
  const at::Tensor p = at::softmax(leaf, -1).gather(-1, index).squeeze(-1);
  const at::Tensor each = (1 - p).pow(gamma) * -p.log();
  const at::Tensor sum = each.masked_fill(labels.eq(-100), 0).sum();
  return {sum.detach(),
          labels.ne(-100).sum().item<double>(),
          {torch::autograd::grad({sum}, {leaf})[0]}};
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("a loss on the stable ABI computes its sum and, by autograd, its gradient", "[plugins]") {
  const at::Tensor labels = at::tensor({0, 4, -100, 2, 1, -100}, at::kLong).reshape({2, 3});
  for (const double gamma : {0.0, 2.0}) {
    for (const auto& [dtype, tolerance] : {std::pair(at::kDouble, 1e-12),
                                           std::pair(at::kFloat, 2e-6),
                                           std::pair(at::kBFloat16, 2e-2)}) {
      const at::Tensor logits = random({2, 3, 5}, dtype);
      INFO("gamma " << gamma << ", dtype " << c10::toString(dtype));
      const tenon::LossResult found = tenon::call_loss(focal(gamma), {logits, labels});
      const tenon::LossResult wanted = expected_focal(logits, labels, gamma);
      CHECK(found.count == 4.0);
      CHECK(found.sum.scalar_type() == (dtype == at::kDouble ? at::kDouble : at::kFloat));
      CHECK(largest_difference(found.sum, wanted.sum) < std::max(tolerance, 1e-12) * 10);
      CHECK(found.grads[0].scalar_type() == dtype);
      CHECK(largest_difference(found.grads[0], wanted.grads[0]) < tolerance);
    }
  }
}

TEST_CASE("a loss on the stable ABI with its own kernels has the gradient it computes",
          "[plugins]") {
  const tenon::LossProxy square(tenon::make_component("loss", "stable_square"));
  const at::Tensor logits = random({100, 100}, at::kFloat);  // more than one grain of parallel_for
  const at::Tensor targets = at::ones({100, 100});
  const tenon::LossResult found = tenon::call_loss(square, {logits, targets}, 3.0);
  CHECK(found.count == 10000.0);
  const double sum = (logits - targets).to(at::kDouble).square().sum().item<double>();
  CHECK(found.sum.item<double>() == Approx(sum).epsilon(1e-6));
  CHECK(largest_difference(found.grads[0], 6 * (logits - targets)) < 1e-5);
  CHECK_FALSE(found.grads[1].defined());
}

TEST_CASE("tensors of the stable ABI leave no handle behind, also after an error", "[plugins]") {
  const tenon::LossProxy loss = focal(2.0);
  const at::Tensor logits = random({3, 5}, at::kFloat);
  const at::Tensor labels = at::tensor({0, 4, 2}, at::kLong);
  const int64_t before = tenon::HandlePool::get().num_live();
  const auto users = logits.use_count();
  tenon::call_loss(loss, {logits, labels});
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(loss, {logits, at::zeros({3, 2}, at::kLong)});
             }),
             tenon::contains_text("logits with 2 axes do not match labels with 2 axes"));
  // Label 9 is no class: the operator that fails is one of the host.
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(loss, {logits, at::full({3}, 9, at::kLong)});
             }),
             tenon::contains_text("index 9 is out of bounds"));
  CHECK(tenon::HandlePool::get().num_live() == before);
  CHECK(logits.use_count() == users);
}

TEST_CASE("a plugin on the stable ABI needs C functions of libtorch only", "[plugins]") {
  for (const char* const name : {"stable_focal", "stable_square"}) {
    const std::string file = (tenon::test_plugin_dir() / (std::string(name) + ".so")).string();
    const tenon::SubprocessResult needed =
        tenon::run_subprocess({"nm", "-D", "--undefined-only", file});
    INFO(needed.out << needed.err);
    REQUIRE(needed.exit_code == 0);
    std::istringstream lines(needed.out);
    int num_shims = 0;
    for (std::string kind, symbol; lines >> kind >> symbol;) {
      num_shims += symbol.rfind("aoti_torch_", 0) == 0 || symbol.rfind("torch_", 0) == 0 ? 1 : 0;
      for (const char* const space : {"2at", "3c10", "5torch"}) {
        INFO(symbol);
        CHECK((symbol.rfind("_Z", 0) != 0 || symbol.find(space) > 5));
      }
    }
    CHECK(num_shims > 10);
  }
}
