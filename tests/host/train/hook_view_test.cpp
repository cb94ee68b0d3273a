// SPDX-License-Identifier: Apache-2.0
#include "host/train/hook_view.hpp"

#include <tenon/hook.h>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {

TEST_CASE("hooks see the batch, the parameters and the learning rates", "[train]") {
  RunRig run;
  LoopRig loop(run);
  HookView& view = loop.view;
  CHECK(view.field("sample") == nullptr);
  Batch batch;
  batch.schema = sample_schema();
  batch.fields = {at::arange(3)};
  view.step().batch = &batch;
  REQUIRE(view.field("sample") != nullptr);
  CHECK(view.field("sample")->numel() == 3);
  CHECK(view.field("other") == nullptr);

  REQUIRE(view.num_parameters() == 1);
  ParameterView parameter = view.parameter(0);
  CHECK(*parameter.name == "p0");
  CHECK(parameter.value->item<double>() == 2);
  CHECK(parameter.grad == nullptr);  // nothing has a gradient yet
  loop.parts.parameters.add_grad(0, at::full({1}, 4.0, at::kDouble));
  view.step().are_gradients_final = true;
  parameter = view.parameter(0);
  REQUIRE(parameter.grad != nullptr);
  CHECK(parameter.grad->item<double>() == 4);
  CHECK(parameter.numel == 1);

  view.show_whole({.values = {at::full({1}, 7.0, at::kDouble)}, .grads = {at::Tensor()}});
  CHECK(view.parameter(0).value->item<double>() == 7);
  CHECK(view.parameter(0).grad == nullptr);

  REQUIRE(view.num_lr_groups() == 1);
  CHECK(view.lr_group(0).base_rate == 0.5);
  CHECK(view.lr_group(0).rate == 0.5);
  view.set_lr_factor(0.1);
  CHECK(view.lr_group(0).rate == Approx(0.05));
  view.step().lr_factor = 1;  // of the update that was made
  CHECK(view.lr_group(0).rate == 0.5);
  CHECK(view.run_dir() == run.folder.path().string());
}

TEST_CASE("the factor that a hook has set is saved", "[train]") {
  RunRig run;
  LoopRig loop(run);
  loop.view.set_lr_factor(0.25);
  StateTree tree;
  loop.view.learning_rate().put_fields(tree, "run");
  CHECK(tree.get_double("run/hook_lr_factor") == 0.25);
  LearningRate other(nullptr, 0);
  CHECK(other.factor(1) == 1);
  other.get_fields(tree, "run");
  CHECK(other.factor(1) == 0.25);
}

TEST_CASE("metrics and requests of hooks reach the run", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  CHECK_FALSE(loop.view.metric("mine").has_value());
  loop.view.add_metric("mine", 3);
  run.metrics.close(1);
  CHECK(loop.view.metric("mine") == 3);
  CHECK(loop.view.scalar("unknown") == nullptr);
  CHECK_FALSE(loop.view.scalar("loss")->defined());
  loop.view.request(TENON_REQUEST_EVALUATE, "");
  CHECK(loop.requests.votes().pending().has(Vote::kEvaluate));
  CHECK_THROWS(loop.view.roll_back(1, ""));
}

}  // namespace tenon
