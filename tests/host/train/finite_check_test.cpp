// SPDX-License-Identifier: Apache-2.0
#include "host/train/finite_check.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/host/train/loop_rig.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

// A check on the rig's parameters; `is_on_cpu` false runs what a device would run.
struct Checked {
  explicit Checked(NonFiniteRecipe policy, bool is_on_cpu = true, LossScale* scale = nullptr)
      : parts(run.parts()),
        check({.state = state,
               .parameters = parts.parameters,
               .sharded = parts.sharded,
               .ranks = parts.ranks,
               .loss_scale = scale,
               .is_on_cpu = is_on_cpu},
              policy) {}
  // One of several ranks with gradients of their own.
  Checked(NonFiniteRecipe policy, bool is_on_cpu, RankGroups& ranks)
      : parts(run.parts()),
        check({.state = state,
               .parameters = parts.parameters,
               .sharded = parts.sharded,
               .ranks = ranks,
               .is_on_cpu = is_on_cpu,
               .are_gradients_rewritten = true},
              policy) {}

  // One step with this gradient and loss.
  void step(double gradient, double loss = 1) {
    ++state.step;
    ++state.updates;
    parts.parameters.groups()[0].clear_grads();
    check.begin_step();
    check.check_metric(number(loss), number(1));
    parts.parameters.add_grad(0, at::full({1}, gradient, at::kDouble));
    check.check_gradients();
    check.record([] { return NonFiniteOrigin{OriginDistance::kForward, "here"}; });
  }

  RunRig run;
  RunState state = {.step = 100};
  TrainerParts parts;
  FiniteCheck check;
};

constexpr NonFiniteRecipe kSkip = {NonFinitePolicy::kSkip, 10};
constexpr NonFiniteRecipe kIgnore = {NonFinitePolicy::kIgnore, 10};

}  // namespace

TEST_CASE("losses and gradients are checked, and the norm comes with it", "[train]") {
  Checked on(kSkip);
  on.step(-3);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.check.norm().item<double>() == 3);
  CHECK(on.check.applied(true).item<double>() == 1);
  on.step(kInf);
  CHECK(on.check.is_skipped());
  on.step(1, kNan);
  CHECK(on.check.is_skipped());
  CHECK(on.check.guard().count().last_origin == "here");
  on.step(1);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.check.guard().count().steps == 2);
  on.check.begin_step();
  on.check.fail_tables();
  on.check.check_gradients();
  CHECK(on.check.is_skipped());
}

TEST_CASE("a policy may exempt all steps", "[train]") {
  Checked on(kIgnore);
  on.step(kNan);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.check.guard().count().steps == 1);
}

TEST_CASE("clipping takes the norm that was checked, and a second check leaves it", "[train]") {
  Checked on(kSkip);
  on.step(8);
  on.check.clip_norm(2);
  CHECK(on.parts.parameters.groups()[0].grad()[0].item<double>() == Approx(2));
  on.check.check_gradients_again();
  CHECK(on.check.norm().item<double>() == 8);
  MetricBook metrics;
  on.check.record_norm(metrics);
  CHECK(metrics.mean("grad_norm") == 8);
}

TEST_CASE("a device decides for itself, and the host hears of it later", "[train]") {
  Checked on(kSkip, /*is_on_cpu=*/false);
  on.step(1);
  CHECK(on.check.found_inf().item<float>() == 0);
  on.step(kNan);
  CHECK_FALSE(on.check.is_skipped());  // the host does not know yet
  CHECK(on.check.is_found_on_device());
  CHECK(on.check.bad_losses().item<float>() == 1);
  CHECK(on.check.applied(true).item<double>() == 0);
  CHECK(on.state.updates == 2);
  on.check.sync();
  CHECK(on.state.updates == 1);
  CHECK(on.check.take_late_skips());
  CHECK_FALSE(on.check.take_late_skips());
  CHECK(on.check.guard().count().steps == 1);
  CHECK_THAT(on.check.guard().count().last_origin, contains_text("p0"));
  on.step(kNan);  // in a streak the host waits
  CHECK(on.check.is_skipped());
  on.step(1, kNan);
  CHECK(on.check.is_skipped());
}

TEST_CASE("an overflow under a loss scale is exempt, and lowers the scale", "[train]") {
  LossScale scale(at::kCPU);
  Checked on(kSkip, /*is_on_cpu=*/false, &scale);
  on.step(kInf);
  CHECK(on.check.found_inf().item<float>() == 1);
  on.check.update_loss_scale(true);
  CHECK(scale.scale().item<float>() == 32768);
  CHECK(on.check.bad_losses().item<float>() == 0);
  StateTree tree;
  on.check.put_fields(tree, "run");
  CHECK(tree.get_tensor("run/scaler_skips").item<double>() == 1);
  on.check.sync();
  CHECK(on.check.guard().count().steps == 0);
  MetricBook metrics;
  on.check.sync_loss_scale(metrics);
  CHECK(on.state.updates == 0);
  CHECK(on.check.take_late_skips());
  on.step(1, kNan);  // with losses that are non-finite already it is no overflow
  on.check.sync();
  CHECK(on.check.guard().count().steps == 1);
}

TEST_CASE("ranks add up their squares, and skip a step together", "[train]") {
  for (const bool is_on_cpu : {true, false}) {
    INFO((is_on_cpu ? "on the CPU" : "as on a device"));
    constexpr uint32_t kRanks = 3;
    std::vector<std::vector<double>> norms(kRanks);
    std::vector<std::vector<bool>> are_skipped(kRanks);
    run_ranks(kRanks, [&](RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      Checked on(kSkip, is_on_cpu, ranks);
      const auto step = [&](double gradient, double loss = 1) {
        on.step(gradient, loss);
        norms[rank].push_back(on.check.norm().item<double>());
        are_skipped[rank].push_back(on.check.is_skipped() || on.check.is_found_on_device());
      };
      step(std::vector<double>{2, 3, 6}[rank]);
      step(rank == 1 ? kInf : 1);
      step(1, rank == 2 && !is_on_cpu ? kNan : 1);  // the CPU shares losses elsewhere
      step(rank == 0 ? 3e200 : 4e200);
    });
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(norms[rank][0] == 7);
      CHECK_FALSE(std::isfinite(norms[rank][1]));
      CHECK(norms[rank][2] == std::sqrt(3.0));
      CHECK(are_skipped[rank] == std::vector<bool>{false, true, !is_on_cpu, !is_on_cpu});
    }
    if (is_on_cpu) {  // each square exceeds fp64
      CHECK(norms[0][3] == Approx(std::sqrt(41.0) * 1e200).epsilon(1e-15));
      CHECK(norms[1][3] == norms[0][3]);
      CHECK(norms[2][3] == norms[0][3]);
    }
  }
}

}  // namespace tenon
