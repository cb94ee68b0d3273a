// SPDX-License-Identifier: Apache-2.0
#include "host/train/checkpoint_driver.hpp"

#include <tenon/hook.h>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

CheckpointRecipe every_two_steps() {
  CheckpointRecipe recipe;
  recipe.every.steps = 2;
  recipe.at_end = true;
  return recipe;
}

}  // namespace

TEST_CASE("checkpoints are saved at their boundaries, once each", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  LoopRig loop(run);
  for (loop.state.step = 1; loop.state.step <= 4; ++loop.state.step) {
    loop.checkpoints.save_if_due(RunBoundary::kStep);
    loop.checkpoints.save_if_due(RunBoundary::kWindow);
  }
  loop.checkpoints.finish();
  CHECK(run.storage->list() == Names{"step-00000002_epoch-0", "step-00000004_epoch-0"});
  CHECK(loop.hook.count(TENON_EVENT_BEFORE_CHECKPOINT) == 2);
  CHECK(loop.hook.count(TENON_EVENT_AFTER_CHECKPOINT) == 2);
  Outcome outcome;
  loop.checkpoints.add_counts(outcome);
  REQUIRE(outcome.saves.has_value());
  CHECK(outcome.saves->committed == 2);
  CHECK_FALSE(outcome.exports.has_value());
}

TEST_CASE("before each save a run checks that its folder is still its own", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  LoopRig loop(run);
  loop.state.step = 2;
  loop.checkpoints.save_if_due(RunBoundary::kStep);
  loop.checkpoints.finish();
  run.owner.problem = "the run folder x is no longer that of this run: it was removed or renamed";
  loop.state.step = 4;
  try {
    loop.checkpoints.save_if_due(RunBoundary::kStep);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_lost");
    CHECK_THAT(error.message(), contains_text(run.owner.problem));
    CHECK_THAT(error.message(), contains_text("the run stops at step 4"));
  }
  CHECK(run.storage->list() == Names{"step-00000002_epoch-0"});
}

TEST_CASE("a requested checkpoint is saved at the next boundary", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  LoopRig loop(run);
  loop.state.step = 3;
  loop.view.request(TENON_REQUEST_CHECKPOINT, "");
  loop.requests.votes().start();
  loop.checkpoints.sync(loop.requests.votes().resolve());
  loop.checkpoints.save_if_due(RunBoundary::kStep);
  loop.checkpoints.finish();
  CHECK(run.storage->list() == Names{"step-00000003_epoch-0"});
}

TEST_CASE("the end of a run is saved, unless the recipe says otherwise", "[train]") {
  for (const bool at_end : {true, false}) {
    RunRig run;
    run.recipe.checkpoint = every_two_steps();
    run.recipe.checkpoint->at_end = at_end;
    LoopRig loop(run);
    loop.state.step = 3;
    loop.stop.end(ExitCode::kDone, "enough");
    loop.checkpoints.save_if_due(RunBoundary::kStep);
    loop.checkpoints.finish();
    CHECK(run.storage->list().size() == (at_end ? 1 : 0));
  }
}

TEST_CASE("initial parameters are saved in place of training", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  LoopRig loop(run);
  loop.checkpoints.save_initial();
  CHECK(loop.stop.reason() == "saved the initial parameters");
  CHECK(run.storage->list() == Names{"step-00000000_epoch-0"});
}

TEST_CASE("initial parameters that cannot be saved are an error", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  run.recipe.checkpoint->retries = 0;
  run.folder.write("checkpoints", "a file in the way");
  LoopRig loop(run);
  try {
    loop.checkpoints.save_initial();
    FAIL("nothing was saved");
  } catch (const Error& error) {
    CHECK(error.id() == "checkpoint.failed");
    CHECK(error.exit_code() == ExitCode::kFailed);
    CHECK_THAT(error.what(), contains_text((run.folder.path() / "checkpoints").string()));
  }
}

TEST_CASE("a hook that ends the run after a checkpoint has it saved again", "[train]") {
  RunRig run;
  run.recipe.checkpoint = every_two_steps();
  LoopRig loop(run);
  loop.state.step = 2;
  loop.checkpoints.save_if_due(RunBoundary::kStep);
  Decision decision;
  decision.set(Vote::kStop);
  loop.stop.note_stop_request("enough");
  loop.stop.act_on(decision);
  loop.checkpoints.save_if_due(RunBoundary::kWindow);
  loop.checkpoints.save_if_due(RunBoundary::kWindow);
  loop.checkpoints.finish();
  CHECK(run.storage->list() == Names{"step-00000002_epoch-0", "step-00000002_epoch-0_2"});
}

TEST_CASE("a recipe that saves nothing costs nothing", "[train]") {
  RunRig run;
  LoopRig loop(run);
  CHECK_FALSE(loop.checkpoints.is_on());
  loop.state.step = 1;
  loop.checkpoints.save_if_due(RunBoundary::kStep);
  loop.checkpoints.save(RunBoundary::kStep);
  loop.checkpoints.export_at_end(true);
  loop.checkpoints.finish();
  CHECK_FALSE(loop.checkpoints.finish_all().has_value());
  CHECK(loop.hook.seen.empty());
}

}  // namespace tenon
