// SPDX-License-Identifier: Apache-2.0
#include "host/train/hook_view.hpp"

#include <tenon/hook.h>

#include "host/error/status.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

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
  run.model->parameters.add_grad(0, at::full({1}, 4.0, at::kDouble));
  view.step().are_gradients_final = true;
  parameter = view.parameter(0);
  REQUIRE(parameter.grad != nullptr);
  CHECK(parameter.grad->item<double>() == 4);
  CHECK(parameter.numel == 1);

  view.show_whole({.values = {{at::full({1}, 7.0, at::kDouble)}}, .grads = {{}}});
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

TEST_CASE("hooks see outputs, replace fields and scale the loss at their events", "[train]") {
  RunRig run;
  LoopRig loop(run);
  std::map<uint32_t, std::string> said;
  double output = 0;
  std::vector<double> grads;
  loop.hook.reads = TENON_TOUCH_OUTPUTS;
  loop.hook.writes = TENON_TOUCH_BATCH | TENON_TOUCH_LOSS;
  loop.hook.on_event = [&](const tenon_event& event) {
    const tenon_tensor* out = nullptr;
    const StatusText found = take(event.api->get_output(event.run, "v1", &out));
    said[event.id] = found.id;
    if (event.id == TENON_EVENT_AFTER_DATA) {
      const at::Tensor longer = at::full({2}, 10, at::kLong);
      CHECK(take(event.api->set_field(event.run, "sample", borrow(longer))).ok());
      CHECK(take(event.api->set_field(event.run, "none", borrow(longer))).code == TENON_NOT_FOUND);
      const at::Tensor wrong = at::full({3}, 10, at::kLong);
      CHECK_THAT(take(event.api->set_field(event.run, "sample", borrow(wrong))).message,
                 contains_text("keep dtype, device, number of axes and first axis"));
      CHECK(take(event.api->scale_loss(event.run, 2)).code == TENON_INVALID);
    } else if (event.id == TENON_EVENT_AFTER_LOSS) {
      output = tensor_of(out).sum().item<double>();
      CHECK(take(event.api->scale_loss(event.run, 3)).ok());
      CHECK(take(event.api->scale_loss(event.run, NAN)).code == TENON_INVALID);
    }
  };
  run.plan.observers.hooks = loop.hook.proxies();
  LoopEvents events(loop.run, loop.view);
  TrainStep step(loop.run,
                 loop.state,
                 loop.gradients,
                 loop.finite_check,
                 events,
                 loop.view,
                 loop.log,
                 loop.requests);
  loop.feed.begin_epoch(0);
  REQUIRE(loop.feed.open_next() == NextWindow::kOpen);
  ++loop.state.step;
  std::vector<Microbatch> microbatches = loop.feed.take_microbatches();
  const auto num_samples = static_cast<double>(microbatches[0].batch.samples);
  REQUIRE(num_samples == 2);
  step.run_microbatches(microbatches, [] {});
  CHECK(said[TENON_EVENT_AFTER_FORWARD].empty());
  CHECK(said[TENON_EVENT_BEFORE_BACKWARD].empty());
  CHECK(said[TENON_EVENT_BEFORE_FORWARD] == "hook.no_output");
  CHECK(output == 2 * 10 * 2.0);  // the weight is 2
  // The mean over two samples of 10 * weight has the gradient 10, times the factor.
  run.model->sharded.resolve();
  CHECK(run.model->parameters.groups()[0].grad_view(0).item<double>() == Approx(30));
}

TEST_CASE("the loss of a step is that of all samples, and none if it is non-finite", "[train]") {
  RunRig run;
  LoopRig loop(run, 2);
  loop.hook.reads = TENON_TOUCH_LOSS;
  run.plan.observers.hooks = loop.hook.proxies();
  LoopEvents events(loop.run, loop.view);
  TrainStep step(loop.run,
                 loop.state,
                 loop.gradients,
                 loop.finite_check,
                 events,
                 loop.view,
                 loop.log,
                 loop.requests);
  loop.feed.begin_epoch(0);
  REQUIRE(loop.feed.open_next() == NextWindow::kOpen);
  ++loop.state.step;
  std::vector<Microbatch> microbatches = loop.feed.take_microbatches();
  step.run_microbatches(microbatches, [] {});
  double sum = 0;
  double count = 0;
  for (const Microbatch& microbatch : microbatches) {
    sum += microbatch.sums[0].item<double>();
    count += microbatch.counts[0].item<double>();
  }
  CHECK_FALSE(loop.view.step_loss().has_value());
  step.update(microbatches, true);
  CHECK(loop.view.step_loss() == Approx(sum / count));
  microbatches[0].sums[0] = at::full({}, NAN, at::kDouble);
  step.update(microbatches, false);
  CHECK_FALSE(loop.view.step_loss().has_value());
}

TEST_CASE("metrics and requests of hooks reach the run", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  CHECK_FALSE(loop.view.metric("mine").has_value());
  loop.view.add_metric("mine", 3);
  run.report.metrics.close(1);
  CHECK(loop.view.metric("mine") == 3);
  CHECK(loop.view.scalar("unknown") == nullptr);
  CHECK_FALSE(loop.view.scalar("loss")->defined());
  loop.view.request(TENON_REQUEST_EVALUATE, "");
  CHECK(loop.requests.votes().pending().has(Vote::kEvaluate));
  CHECK_THROWS(loop.view.roll_back(1, ""));
}

}  // namespace tenon
