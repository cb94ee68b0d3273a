// SPDX-License-Identifier: Apache-2.0
//
// tenon::adam_, adagrad_ and sgd_ against their formulas, element by element in fp64.
#include <tenon/torch/ops.hpp>

#include "host/kernels/operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kNumUpdates = 3;
constexpr double kLr = 0.05;

// Two parameters of odd sizes, with slots of zeros.
struct Run {
  Run(at::ScalarType dtype, size_t num_slots) {
    register_operators();
    for (const at::Tensor& value : {made(1, {37}), made(2, {3, 5})}) {
      parameters.push_back(value.to(dtype));
      steps.push_back(at::zeros({}, at::kFloat));
    }
    slots.resize(num_slots);
    for (Tensors& slot : slots) {
      for (const at::Tensor& parameter : parameters) {
        slot.push_back(at::zeros_like(parameter));
      }
    }
  }

  ops::Update update(int64_t n) {
    grads.clear();
    for (size_t i = 0; i < parameters.size(); ++i) {
      grads.push_back(gradient(n, i).to(parameters[i].scalar_type()));
      steps[i].fill_(n);
    }
    return {parameters, grads, steps, lr, found_inf};
  }

  static at::Tensor gradient(int64_t n, size_t i) {
    return made(static_cast<uint64_t>(10 * n) + i,
                i == 0 ? std::vector<int64_t>{37} : std::vector<int64_t>{3, 5});
  }

  Tensors parameters;
  Tensors grads;
  Tensors steps;
  std::vector<Tensors> slots;
  at::Tensor lr = at::scalar_tensor(kLr, at::kDouble);
  std::optional<at::Tensor> found_inf;
};

// Updates one number: (parameter, gradient, slots, update from 1) -> parameter.
using Formula = std::function<double(double, double, std::array<double, 3>&, int)>;

// Computes all updates in fp64 by `formula`, and compares.
void check_follows(const Run& run, const Formula& formula, double tolerance) {
  const at::ScalarType dtype = run.parameters[0].scalar_type();
  for (size_t i = 0; i < run.parameters.size(); ++i) {
    const Run fresh(dtype, 0);
    const at::Tensor found = run.parameters[i].to(at::kDouble).flatten();
    const at::Tensor before = fresh.parameters[i].to(at::kDouble).flatten();
    for (int64_t k = 0; k < found.numel(); ++k) {
      double x = before[k].item<double>();
      std::array<double, 3> slots = {0, 0, 0};
      for (int n = 1; n <= kNumUpdates; ++n) {
        const at::Tensor g = Run::gradient(n, i).to(dtype).to(at::kDouble).flatten();
        x = formula(x, g[k].item<double>(), slots, n);
      }
      CAPTURE(i, k);
      CHECK(std::abs(found[k].item<double>() - x) <= tolerance * (1 + std::abs(x)));
    }
  }
}

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 2e-6 : 0.02;
}

}  // namespace

TEST_CASE("adam_ and its variants follow their formulas", "[parity]") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat);
  const bool is_decoupled = GENERATE(false, true);
  const bool has_max = GENERATE(false, true);
  CAPTURE(c10::toString(dtype), is_decoupled, has_max);
  const ops::Adam o{.beta1 = 0.8,
                    .beta2 = 0.95,
                    .eps = 1e-3,
                    .weight_decay = 0.1,
                    .decoupled_decay = is_decoupled};
  Run run(dtype, 3);
  for (int n = 1; n <= kNumUpdates; ++n) {
    ops::adam_(run.update(n),
               run.slots[0],
               run.slots[1],
               has_max ? at::TensorList(run.slots[2]) : at::TensorList(),
               o);
  }
  check_follows(
      run,
      [&](double x, double g, std::array<double, 3>& slots, int n) {
        auto& [mean, square, largest] = slots;
        if (is_decoupled) {
          x -= kLr * o.weight_decay * x;
        } else {
          g += o.weight_decay * x;
        }
        mean = o.beta1 * mean + (1 - o.beta1) * g;
        square = o.beta2 * square + (1 - o.beta2) * g * g;
        largest = std::max(largest, square);
        const double m = mean / (1 - std::pow(o.beta1, n));
        const double v = (has_max ? largest : square) / (1 - std::pow(o.beta2, n));
        return x - kLr * m / (std::sqrt(v) + o.eps);
      },
      tolerance_of(dtype));
}

TEST_CASE("adagrad_ follows its formula", "[parity]") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat);
  CAPTURE(c10::toString(dtype));
  const ops::Adagrad o{.lr_decay = 0.3, .eps = 1e-3, .weight_decay = 0.1};
  Run run(dtype, 1);
  for (int n = 1; n <= kNumUpdates; ++n) {
    ops::adagrad_(run.update(n), run.slots[0], o);
  }
  check_follows(
      run,
      [&](double x, double g, std::array<double, 3>& slots, int n) {
        g += o.weight_decay * x;
        slots[0] += g * g;
        return x - kLr / (1 + (n - 1) * o.lr_decay) * g / (std::sqrt(slots[0]) + o.eps);
      },
      tolerance_of(dtype));
}

TEST_CASE("sgd_ follows its formula, in bf16 too", "[parity]") {
  const auto dtype = GENERATE(at::kDouble, at::kFloat, at::kBFloat16);
  const auto o = GENERATE(values<ops::Sgd>({
      {},
      {.momentum = 0.9},
      {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
      {.momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1},
  }));
  CAPTURE(c10::toString(dtype), o.momentum, o.dampening, o.nesterov);
  Run run(dtype, o.momentum > 0 ? 1 : 0);
  for (int n = 1; n <= kNumUpdates; ++n) {
    ops::sgd_(run.update(n), o.momentum > 0 ? at::TensorList(run.slots[0]) : at::TensorList(), o);
  }
  check_follows(
      run,
      [&](double x, double g, std::array<double, 3>& slots, int n) {
        g += o.weight_decay * x;
        double direction = g;
        if (o.momentum > 0) {
          slots[0] = o.momentum * slots[0] + (n == 1 ? 1 : 1 - o.dampening) * g;
          direction = o.nesterov ? g + o.momentum * slots[0] : slots[0];
        }
        return x - kLr * direction;
      },
      tolerance_of(dtype));
}

TEST_CASE("an update with found_inf changes nothing") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  Run run(dtype, 2);
  run.found_inf = at::ones({}, at::kFloat);
  const Run before(dtype, 2);
  const auto check_unchanged = [&] {
    for (size_t i = 0; i < run.parameters.size(); ++i) {
      CHECK(at::equal(run.parameters[i], before.parameters[i]));
      CHECK(at::equal(run.slots[0][i], before.slots[0][i]));
      CHECK(at::equal(run.slots[1][i], before.slots[1][i]));
    }
  };
  ops::sgd_(run.update(1), run.slots[0], {.momentum = 0.9});
  check_unchanged();
  ops::sgd_(run.update(1), run.slots[0], {.momentum = 0.9, .dampening = 0.5});
  check_unchanged();
  if (dtype == at::kFloat) {
    ops::adam_(run.update(1), run.slots[0], run.slots[1], {}, {});
    check_unchanged();
    ops::adagrad_(run.update(1), run.slots[0], {});
    check_unchanged();
  }
}

TEST_CASE("an update refuses lists of other lengths, and names them") {
  Run run(at::kFloat, 1);
  const Tensors one = {run.slots[0][0]};
  CHECK_THROWS_WITH(ops::sgd_(run.update(1), one, {.momentum = 0.9}),
                    contains_text("tenon::sgd_: `momentums` has 1 tensors for 2 parameters"));
  CHECK_THROWS_WITH(ops::adagrad_(run.update(1), one, {}),
                    contains_text("tenon::adagrad_: `sums` has 1 tensors for 2 parameters"));
  CHECK_THROWS_WITH(ops::adam_(run.update(1), run.slots[0], one, {}, {}),
                    contains_text("tenon::adam_: `exp_avg_sqs` has 1 tensors for 2 parameters"));
}

}  // namespace tenon
