// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/loss_set.hpp"

#include "host/error/error.hpp"

#include <limits>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

Batch batch_of(const std::vector<int64_t>& samples) {
  Batch batch;
  batch.schema = sample_schema();
  batch.fields = {at::tensor(samples)};
  batch.samples = static_cast<int64_t>(samples.size());
  return batch;
}

const CallPoint kTrain{1, 0, true};

}  // namespace

TEST_CASE("losses are counted before or after the forward, and summed", "[train]") {
  RunRig run;
  run.allocate();
  LossSet& losses = run.model->losses;
  const Batch batch = batch_of({1, 2, 3});
  CHECK(losses.count(batch, kTrain)[0].item<double>() == 3);
  run.model->runner.forward(run.model->state(), batch, kTrain);
  CHECK(losses.count(run.model->state(), batch, kTrain)[0].item<double>() == 3);
  LossCalls calls;
  CHECK(losses.compute(run.model->state(), batch, kTrain, calls)[0].item<double>() == 2 * 6);
  CHECK(calls.size() == 1);
  losses.backward(run.model->state(), kTrain, calls, {at::scalar_tensor(0.5, at::kDouble)});
  CHECK(calls.empty());
  run.model->runner.backward(run.model->state(), nullptr);
  CHECK(run.model->parameters.groups()[0].grad()[0].item<double>() == 0.5 * 6);
}

TEST_CASE("losses say what they read, and what they promise", "[train]") {
  RunRig run;
  run.allocate();
  const LossSet& losses = run.model->losses;
  CHECK(losses.size() == 1);
  CHECK(losses.name(0) == "sum");
  CHECK(losses.weight(0) == 1);
  CHECK(losses.text(0) == "loss 'sum' (made)");
  CHECK(losses.values_read(0) == std::vector<uint32_t>{1});
  CHECK(losses.fields_read(0) == std::vector<std::string>{"sample"});
  CHECK(losses.count_from_batch());
  CHECK_FALSE(losses.is_additive_over_tokens(0));
  CHECK_NOTHROW(losses.check_additive(4));
  CHECK_NOTHROW(losses.check_fields(*sample_schema(), "d"));
  CHECK_THROWS_AS(losses.check_fields({}, "d"), Error);
}

TEST_CASE("what a loss gives must be a scalar that is wide enough", "[train]") {
  struct Narrow {
    static tenon_status* compute(void*, const tenon_exec*, tenon_loss_compute_args* args) {
      args->out_sum_own = new_handle(tensor_of(args->inputs[0]).sum().to(at::kHalf));
      return nullptr;
    }
    static tenon_status* count(void*, const tenon_exec*, tenon_loss_count_args* args) {
      args->out_count_own = new_handle(at::ones({2}));
      return nullptr;
    }
  };
  static const tenon_loss table = {
      sizeof(tenon_loss), &SumLoss::describe, &Narrow::count, &Narrow::compute, nullptr};
  RunRig run;
  run.allocate();
  SumLoss self;
  std::vector<NamedLoss> named;
  named.push_back({.name = "narrow",
                   .weight = 1,
                   .inputs = {},
                   .proxy = LossProxy(made_instance("loss", TENON_LOSS_ID, &table, &self))});
  LossSet losses(std::move(named), run.plan.model.graph, "made", RunRig::base());
  const Batch batch = batch_of({1});
  run.model->runner.forward(run.model->state(), batch, kTrain);
  LossCalls calls;
  CHECK_THROWS_WITH(losses.compute(run.model->state(), batch, kTrain, calls),
                    contains_text("[plugin.bad_result]"));
  CHECK_THROWS_WITH(losses.count(batch, kTrain),
                    contains_text("it must return a scalar of Double"));
  run.model->runner.clear(run.model->state());
}

}  // namespace tenon
