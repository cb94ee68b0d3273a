// SPDX-License-Identifier: Apache-2.0
#include "host/train/gradient_statistics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/host/train/loop_rig.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

constexpr double kBadLoss = std::numeric_limits<double>::quiet_NaN();
constexpr double kTooLarge = std::numeric_limits<double>::infinity();

at::Tensor fp64(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

// The gradients of the rig's parameter; `is_on_cpu` false runs what a device would run. `shared`:
// one of several ranks with gradients of their own.
struct Measured {
  explicit Measured(bool is_on_cpu = true, RankGroups* shared = nullptr)
      : run(8, {}, shared), gradients(prepare(is_on_cpu)) {}

  RunServices& prepare(bool is_on_cpu) {
    run.context.gpu = is_on_cpu ? nullptr : &device;
    hook.writes = TENON_TOUCH_GRADIENTS;
    run.plan.observers.hooks = hook.proxies();
    return run.allocate();
  }
  void step(double gradient, double loss = 1) {
    run.model->parameters.groups()[0].clear_grads();
    gradients.begin_step();
    gradients.add_loss(fp64(loss), fp64(1));
    run.model->parameters.add_grad(0, at::full({1}, gradient, at::kDouble));
    gradients.measure();
  }
  bool is_finite() {
    return gradients.is_on_cpu() ? gradients.is_finite()
                                 : gradients.non_finite().item<float>() == 0;
  }

  NoGpu device;
  RecordingHook hook;
  RunRig run;
  GradientStatistics gradients;
};

}  // namespace

TEST_CASE("losses, gradients and tables make a step non-finite", "[train]") {
  for (const bool is_on_cpu : {true, false}) {
    INFO((is_on_cpu ? "on the CPU" : "as on a device"));
    Measured on(is_on_cpu);
    on.step(-3);
    CHECK(on.is_finite());
    CHECK(on.gradients.norm().item<double>() == 3);
    on.step(kTooLarge);
    CHECK_FALSE(on.is_finite());
    on.step(1, kBadLoss);
    CHECK_FALSE(on.is_finite());
    CHECK(on.gradients.are_losses_finite() == !is_on_cpu);  // a device decides for itself
    on.step(1);
    CHECK(on.is_finite());
    on.gradients.fail_tables();
    on.gradients.measure();
    CHECK_FALSE(on.is_finite());
  }
}

TEST_CASE("clipping takes the norm that was measured, and measuring again leaves it", "[train]") {
  for (const bool is_on_cpu : {true, false}) {
    Measured on(is_on_cpu);
    on.step(8);
    on.gradients.clip(2);
    CHECK(on.run.model->parameters.groups()[0].grad()[0].item<double>() == Approx(2));
    on.gradients.measure_again();
    CHECK(on.gradients.norm().item<double>() == 8);
    CHECK(on.is_finite());
  }
}

TEST_CASE("ranks add up their squares", "[train]") {
  for (const bool is_on_cpu : {true, false}) {
    INFO((is_on_cpu ? "on the CPU" : "as on a device"));
    constexpr uint32_t kRanks = 3;
    std::vector<std::vector<double>> norms(kRanks);
    std::vector<std::vector<bool>> are_finite(kRanks);
    run_ranks(kRanks, [&](RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      Measured on(is_on_cpu, &ranks);
      const auto step = [&](double gradient, double loss = 1) {
        on.step(gradient, loss);
        norms[rank].push_back(on.gradients.norm().item<double>());
        are_finite[rank].push_back(on.is_finite());
      };
      step(std::vector<double>{2, 3, 6}[rank]);
      step(rank == 1 ? kTooLarge : 1);
      step(1, rank == 2 && !is_on_cpu ? kBadLoss : 1);  // the CPU shares losses elsewhere
      step(rank == 0 ? 3e200 : 4e200);
    });
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(norms[rank][0] == 7);
      CHECK_FALSE(std::isfinite(norms[rank][1]));
      CHECK(norms[rank][2] == std::sqrt(3.0));
      CHECK(are_finite[rank] == std::vector<bool>{true, false, is_on_cpu, is_on_cpu});
    }
    if (is_on_cpu) {  // each square exceeds fp64
      CHECK(norms[0][3] == Approx(std::sqrt(41.0) * 1e200).epsilon(1e-15));
      CHECK(norms[1][3] == norms[0][3]);
      CHECK(norms[2][3] == norms[0][3]);
    }
  }
}

}  // namespace tenon
