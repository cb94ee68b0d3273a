// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/checkpointing.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/collectives/world.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

StateTree tree_of(double value) {
  StateTree tree;
  tree.put_tensor("parameters/values/w", at::full({3}, value), StateTree::Copy::kNo);
  tree.put_int("run/step", 1);
  return tree;
}

// Saves the states that a test asks for, on one rank, in a folder of its own.
struct CheckpointingRig {
  explicit CheckpointingRig(CheckpointRecipe asked) : recipe(std::move(asked)) {}

  void save(uint64_t step) {
    const RunState state = {.step = step};
    checkpoints.save(RunBoundary::kStep, state, std::nullopt, {}, {.is_full = true}, tree_of(1));
    checkpoints.finish([] { return std::optional<std::chrono::duration<double>>(); });
    lines = checkpoints.take_lines();
  }
  std::vector<std::string> kept() const { return storage->list(); }

  std::vector<std::string> lines;  // of the last save
  ScratchFolder folder;
  CheckpointRecipe recipe;
  std::shared_ptr<CheckpointStore> storage =
      std::make_shared<LocalStorage>((folder.path() / "saved").string());
  std::unique_ptr<World> world = World::join({}, {});
  Checkpointing checkpoints{CheckpointingParts{
      .recipe = recipe, .storage = storage, .collective = world->control(), .frozen_recipe = "{}"}};
};

CheckpointRecipe keeping(int64_t keep_last) {
  CheckpointRecipe recipe;
  recipe.keep_last = keep_last;
  return recipe;
}

std::string name_of(uint64_t step) {
  return checkpoint_name({.step = step}, false);
}

}  // namespace

TEST_CASE("a checkpoint is named by where the run is", "[train]") {
  RunState state{.step = 500, .epochs = 1, .windows = 3};
  CHECK(checkpoint_name(state, false) == "step-00000500_epoch-1");
  state.tokens = 64'000;
  CHECK(checkpoint_name(state, true) == "step-00000500_tokens-64000_epoch-1_window-3");
}

TEST_CASE("a save is due by steps, windows, epochs or at the start", "[train]") {
  CheckpointRecipe recipe;
  recipe.every.steps = 5;
  recipe.every.windows = 2;
  recipe.every.epochs = 3;
  const CheckpointingRig rig(recipe);
  const RunState state{.step = 10, .epochs = 4, .windows = 2};
  CHECK(rig.checkpoints.is_due(RunBoundary::kStep, state));
  CHECK(rig.checkpoints.is_due(RunBoundary::kWindow, state));
  CHECK_FALSE(rig.checkpoints.is_due(RunBoundary::kEpoch, state));
  CHECK_FALSE(rig.checkpoints.is_due(RunBoundary::kStart, state));
  CHECK_FALSE(rig.checkpoints.is_due(RunBoundary::kStep, {.step = 0}));
  CHECK_FALSE(rig.checkpoints.is_clock_due());
}

TEST_CASE("the newest checkpoints stay, and those that are pinned", "[train]") {
  CheckpointingRig rig(keeping(2));
  rig.checkpoints.keeper().pin(name_of(1));
  for (uint64_t step = 1; step <= 4; ++step) {
    rig.save(step);
  }
  CHECK(rig.kept() == std::vector<std::string>{name_of(1), name_of(3), name_of(4)});
  CHECK(rig.checkpoints.count().committed == 4);
  CHECK(rig.checkpoints.count().failed == 0);
}

TEST_CASE("one checkpoint stays if one is kept", "[train]") {
  CheckpointingRig rig(keeping(1));
  rig.save(1);
  rig.save(2);
  CHECK(rig.kept() == std::vector<std::string>{name_of(2)});
}

TEST_CASE("while updates are not finite the last one before them stays", "[train]") {
  CheckpointingRig rig(keeping(1));
  rig.save(2);
  rig.checkpoints.keeper().pin_before(3);
  rig.save(3);
  rig.save(4);
  CHECK(rig.kept() == std::vector<std::string>{name_of(2), name_of(4)});
  rig.checkpoints.keeper().pin_before(std::nullopt);
  rig.save(5);
  CHECK(rig.kept() == std::vector<std::string>{name_of(5)});
}

TEST_CASE("steps that a run has rolled back from are no candidates", "[train]") {
  CheckpointingRig rig(keeping(0));
  for (const uint64_t step : {2, 6, 4, 8}) {  // from 6 back to before 4
    rig.save(step);
  }
  CHECK(rig.checkpoints.keeper().taken_before(9) ==
        std::vector<std::string>{name_of(8), name_of(4), name_of(2)});
  CHECK(rig.checkpoints.keeper().taken_before(8) ==
        std::vector<std::string>{name_of(4), name_of(2)});
}

TEST_CASE("a state is saved once, unless the run has rolled back to it", "[train]") {
  CheckpointingRig rig(keeping(0));
  rig.save(3);
  CHECK(rig.checkpoints.is_saved({.step = 3}));
  CHECK_FALSE(rig.checkpoints.is_saved({.step = 4}));
  rig.checkpoints.forget_saved({.step = 3});
  CHECK_FALSE(rig.checkpoints.is_saved({.step = 3}));
}

TEST_CASE("a save that fails is a warning, or ends the run", "[train]") {
  for (const auto on_failure : {OnSaveFailure::kContinue, OnSaveFailure::kStop}) {
    CheckpointRecipe recipe = keeping(1);
    recipe.on_failure = on_failure;
    CheckpointingRig rig(recipe);
    rig.folder.write("saved", "a file, where the folder would be");
    rig.save(1);
    CHECK(rig.lines.empty());
    CHECK(rig.checkpoints.count().failed == 1);
    CHECK(rig.checkpoints.failure().has_value() == (on_failure == OnSaveFailure::kStop));
  }
}

TEST_CASE("each save is reported with its address", "[train]") {
  CheckpointingRig rig(keeping(1));
  rig.save(1);
  REQUIRE(rig.lines.size() == 1);
  CHECK_THAT(rig.lines.front(), contains_text("saved " + rig.storage->address(name_of(1))));
  CHECK(rig.checkpoints.take_lines().empty());
}

TEST_CASE("a tree for exports alone takes parameters and rows, no optimizer state", "[train]") {
  const CheckpointingRig rig(keeping(1));
  const StateTree full = rig.checkpoints.tree_for({.is_full = true});
  CHECK_FALSE(full.is_excluded("optimizer/slots/m/w"));
  const StateTree weights = rig.checkpoints.tree_for({.is_full = false});
  CHECK(weights.is_excluded("optimizer/slots/m/w"));
  CHECK_FALSE(weights.is_excluded("parameters/values/w"));
}

}  // namespace tenon
