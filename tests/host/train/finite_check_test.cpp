// SPDX-License-Identifier: Apache-2.0
#include "host/train/finite_check.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble);
}

// A check on the rig's parameters; `is_on_cpu` false runs what a device would run.
struct Checked {
  explicit Checked(NonFiniteRecipe policy, bool is_on_cpu = true)
      : gradients(prepare(policy, is_on_cpu)), check(*run.services, state, gradients) {}

  RunServices& prepare(NonFiniteRecipe policy, bool is_on_cpu) {
    run.recipe.train.non_finite = policy;
    run.context.gpu = is_on_cpu ? nullptr : &device;
    run.plan.observers.hooks = hook.proxies();
    return run.allocate();
  }

  // One step with this gradient and loss.
  void step(double gradient, double loss = 1) {
    ++state.step;
    ++state.updates;
    run.model->parameters.groups()[0].clear_grads();
    gradients.begin_step();
    gradients.add_loss(number(loss), number(1));
    run.model->parameters.add_grad(0, at::full({1}, gradient, at::kDouble));
    gradients.measure();
    check.check();
    check.record([] { return NonFiniteOrigin{OriginDistance::kForward, "here"}; });
  }

  NoGpu device;
  RecordingHook hook;
  RunRig run;
  RunState state = {.step = 100};
  GradientStatistics gradients;
  FiniteCheck check;
};

constexpr NonFiniteRecipe kSkip = {NonFinitePolicy::kSkip, 10};
constexpr NonFiniteRecipe kIgnore = {NonFinitePolicy::kIgnore, 10};

}  // namespace

TEST_CASE("losses and gradients are checked, and the norm comes with it", "[train]") {
  Checked on(kSkip);
  on.step(-3);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.gradients.norm().item<double>() == 3);
  CHECK(on.check.applied(true).item<double>() == 1);
  on.step(kInf);
  CHECK(on.check.is_skipped());
  on.step(1, kNan);
  CHECK(on.check.is_skipped());
  CHECK(on.check.guard().count().last_origin == "here");
  on.step(1);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.check.guard().count().steps == 2);
  on.gradients.begin_step();
  on.gradients.fail_tables();
  on.gradients.measure();
  on.check.check();
  CHECK(on.check.is_skipped());
}

TEST_CASE("a policy may exempt all steps", "[train]") {
  Checked on(kIgnore);
  on.step(kNan);
  CHECK_FALSE(on.check.is_skipped());
  CHECK(on.check.guard().count().steps == 1);
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
  Checked on(kSkip, /*is_on_cpu=*/false);
  const LossScale& scale = on.run.model->loss_scale.emplace(at::kCPU);
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

}  // namespace tenon
