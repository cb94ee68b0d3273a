// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/saved_model.hpp"

#include "host/error/error.hpp"
#include "host/train/best_state.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// A checkpoint of step 2, whose best evaluation is of step 1.
struct SavedRun {
  SavedRun() {
    run.recipe.checkpoint.emplace();
    run.recipe.checkpoint->every.steps = 1;
    run.recipe.eval.keep_best.emplace().metric = "eval/loss";
    LoopRig loop(run);
    BestState& best = *run.model->best;
    MetricRecord record;
    record.values = {{"eval/loss", 0.5}};
    run.set_weight(5);
    best.consider(record, 1);
    run.set_weight(7);
    loop.state.step = 2;
    loop.checkpoints.save_if_due(RunBoundary::kStep);
    loop.checkpoints.finish();
  }
  double weight_in(const SavedModel& model) {
    run.model->parameters.load(model.state, run_state::kParameters);
    return run.weight();
  }

  RunRig run;
};

}  // namespace

TEST_CASE("who reads a model reads the best evaluation, unless it asks for the last step",
          "[train]") {
  SavedRun saved;
  const CheckpointReader reader(saved.run.storage, saved.run.storage->list().back());
  const StateTree state = reader.state(0, 1, nullptr);
  for (const WhichParameters which : {WhichParameters::kAuto, WhichParameters::kBest}) {
    const SavedModel best = saved_model(reader, state, which);
    REQUIRE(best.best.has_value());
    CHECK(best.step == 1);
    CHECK(best.best->metric == "eval/loss");
    CHECK(best.best->value == 0.5);
    CHECK(saved.weight_in(best) == 5);
    CHECK_THAT(best.text, contains_text("step 1 of ") && contains_text("eval/loss 0.5"));
    CHECK_FALSE(best.state.has_subtree("best/kept"));
    CHECK_FALSE(best.state.has_subtree("best"));  // nor its version
  }
  const SavedModel last = saved_model(reader, state, WhichParameters::kLast);
  CHECK(last.step == 2);
  CHECK_FALSE(last.best.has_value());
  CHECK(saved.weight_in(last) == 7);
}

}  // namespace tenon
