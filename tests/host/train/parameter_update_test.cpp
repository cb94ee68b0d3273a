// SPDX-License-Identifier: Apache-2.0
#include "host/train/parameter_update.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// A recipe that clips.
TrainRecipe clip(std::optional<double> TrainRecipe::*limit, double value) {
  TrainRecipe train;
  train.*limit = value;
  return train;
}

// Updates with one gradient, under this recipe, and gives what was subtracted from the weight.
double step_of(const TrainRecipe& train,
               double gradient,
               const std::function<void(LoopRig&)>& prepare = {}) {
  RunRig run;
  run.recipe.train = train;
  LoopRig loop(run);
  if (prepare) {
    prepare(loop);
  }
  loop.state.step = 1;
  ParameterUpdate update(
      loop.run, loop.state, loop.gradients, loop.finite_check, loop.events, loop.view);
  loop.gradients.begin_step();
  update.begin_step();
  run.model->parameters.add_grad(0, at::full({1}, gradient, at::kDouble));
  bool is_final = false;
  update.run(
      true, {}, [] { return NonFiniteOrigin(); }, [&] { is_final = true; });
  CHECK(is_final);
  CHECK_FALSE(loop.view.step().are_gradients_final);
  CHECK_FALSE(run.model->parameters.groups()[0].any_has_grad());
  return 2 - run.weight();
}

}  // namespace

TEST_CASE("gradients are clipped by norm and by value before the update", "[train]") {
  CHECK(step_of(TrainRecipe(), 8) == Approx(4));
  CHECK(step_of(clip(&TrainRecipe::clip_grad_norm, 2), 8) == Approx(1));
  CHECK(step_of(clip(&TrainRecipe::clip_grad_value, 1), 8) == Approx(0.5));
  CHECK(step_of(clip(&TrainRecipe::clip_grad_norm, 20), 8) == Approx(4));
}

TEST_CASE("hooks set the factor on the rate", "[train]") {
  CHECK(step_of(TrainRecipe(), 8, [](LoopRig& loop) { loop.view.set_lr_factor(0.25); }) ==
        Approx(1));
}

TEST_CASE("late counts scale all gradients at the end", "[train]") {
  RunRig run;
  LoopRig loop(run);
  loop.state.step = 1;
  ParameterUpdate update(
      loop.run, loop.state, loop.gradients, loop.finite_check, loop.events, loop.view);
  loop.gradients.begin_step();
  run.model->parameters.add_grad(0, at::full({1}, 8.0, at::kDouble));
  update.run(
      true, at::scalar_tensor(0.25, at::kDouble), [] { return NonFiniteOrigin(); }, [] {});
  CHECK(run.weight() == Approx(2 - 0.5 * 2));
  CHECK(loop.gradients.norm().item<double>() == Approx(2));
}

}  // namespace tenon
