// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/checkpointing.hpp"

#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>

#include <algorithm>
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

CheckpointMetadata metadata_of(const std::string& run) {
  CheckpointMetadata metadata;
  metadata.run = run;
  return metadata;
}

RunTest is_one_of(const std::vector<std::string>& names) {
  return [names](const std::string& run) { return std::ranges::find(names, run) != names.end(); };
}

// Saves the states that a test asks for, on one rank, in a folder of its own.
struct CheckpointingRig {
  explicit CheckpointingRig(CheckpointRecipe asked,
                            std::string run = "",
                            std::vector<std::string> its_names = {})
      : recipe(std::move(asked)), name(std::move(run)), names(std::move(its_names)) {}

  void save(uint64_t step) {
    const RunState state = {.step = step};
    checkpoints.save({.state = state, .taken = JournalNumber{.attempt = 1, .n = step}},
                     {.is_full = true},
                     tree_of(1));
    checkpoints.finish([] { return std::optional<std::chrono::duration<double>>(); });
    ended = checkpoints.take_ended();
  }
  std::vector<std::string> kept() const { return storage->list(); }

  std::vector<EndedSave> ended;        // by the last save
  std::vector<std::string> committed;  // addresses
  ScratchFolder folder;
  CheckpointRecipe recipe;
  std::string name;
  std::vector<std::string> names;  // empty: only `name`
  std::shared_ptr<CheckpointStore> storage =
      std::make_shared<LocalStorage>((folder.path() / "saved").string());
  RankGroups ranks;
  Checkpointing checkpoints{CheckpointingParts{
      .recipe = recipe,
      .storage = storage,
      .ranks = ranks,
      .metadata = metadata_of(name),
      .frozen_recipe = "{}",
      .on_commit = [this](const std::string& address) { committed.push_back(address); },
      .is_run = names.empty() ? RunTest() : is_one_of(names)}};
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
    REQUIRE(rig.ended.size() == 1);
    CHECK(rig.ended.front().result.error.has_value());
    CHECK(rig.committed.empty());
    CHECK(rig.checkpoints.count().failed == 1);
    CHECK(rig.checkpoints.failure().has_value() == (on_failure == OnSaveFailure::kStop));
  }
}

TEST_CASE("each save is reported with its address", "[train]") {
  CheckpointingRig rig(keeping(1));
  rig.save(1);
  REQUIRE(rig.ended.size() == 1);
  CHECK(rig.ended.front().form == SaveEnded::Form::kCheckpoint);
  CHECK_FALSE(rig.ended.front().result.error.has_value());
  CHECK(rig.ended.front().result.address == rig.storage->address(name_of(1)));
  CHECK(rig.ended.front().taken == JournalNumber{.attempt = 1, .n = 1});
  CHECK(CheckpointReader(rig.storage, name_of(1)).index().metadata.journal ==
        JournalNumber{.attempt = 1, .n = 1});
  CHECK(rig.checkpoints.take_ended().empty());
  rig.save(2);
  CHECK(rig.committed == std::vector<std::string>{rig.storage->address(name_of(1)),
                                                  rig.storage->address(name_of(2))});
}

TEST_CASE("a tree for exports alone takes parameters and rows, no optimizer state", "[train]") {
  const CheckpointingRig rig(keeping(1));
  const StateTree full = rig.checkpoints.tree_for({.is_full = true});
  CHECK_FALSE(full.is_excluded("optimizer/slots/m/w"));
  const StateTree weights = rig.checkpoints.tree_for({.is_full = false});
  CHECK(weights.is_excluded("optimizer/slots/m/w"));
  CHECK_FALSE(weights.is_excluded("parameters/values/w"));
}

TEST_CASE("copies, and checkpoints of other runs, are neither counted nor removed", "[train]") {
  CheckpointingRig rig(keeping(2));
  rig.save(1);
  rig.save(2);
  const auto root = rig.folder.path() / "saved";
  const auto copy = [&](const std::string& name) {
    std::filesystem::copy(root / name_of(2), root / name);
  };
  copy(name_of(2) + ".bak");
  copy("aaa");
  copy(name_of(2) + "_2");  // also a name that a run gives
  copy(name_of(2) + " (copy)");
  const std::vector<std::string> copies = {name_of(2) + "_2", name_of(2) + ".bak", "aaa"};
  // Of a run with another name, as one that was copied here.
  CheckpointingRig other(keeping(1), "other");
  other.save(3);
  std::filesystem::rename(other.folder.path() / "saved" / name_of(3), root / name_of(3));
  for (const uint64_t step : {4, 5, 6}) {
    rig.save(step);
    REQUIRE(rig.checkpoints.count().failed == 0);
  }
  std::vector<std::string> kept = rig.kept();
  for (const std::string& name : {copies[0], copies[1], copies[2], name_of(3)}) {
    INFO(name);
    CHECK(std::erase(kept, name) == 1);
    CHECK(std::filesystem::exists(root / name / "index.json"));
  }
  CHECK(kept == std::vector<std::string>{name_of(5), name_of(6)});
  CHECK(std::filesystem::exists(root / (name_of(2) + " (copy)") / "index.json"));
  // Nor is one of them rolled back to.
  CHECK(rig.checkpoints.keeper().taken_before(6) == std::vector<std::string>{name_of(5)});
}

TEST_CASE("a run that was renamed removes what it saved under its earlier name", "[train]") {
  CheckpointingRig rig(keeping(1), "new", {"old", "new"});
  CheckpointingRig earlier(keeping(1), "old");
  earlier.save(1);
  std::filesystem::rename(earlier.folder.path() / "saved", rig.folder.path() / "saved");
  rig.save(2);
  CHECK(rig.kept() == std::vector<std::string>{name_of(2)});
}

TEST_CASE("a checkpoint that cannot be read does not keep others from being removed", "[train]") {
  CheckpointingRig earlier(keeping(0));
  earlier.save(1);
  earlier.save(2);
  CheckpointingRig rig(keeping(1));
  const auto root = rig.folder.path() / "saved";
  std::filesystem::rename(earlier.folder.path() / "saved", root);
  std::filesystem::remove(root / name_of(1) / "COMMITTED");
  std::filesystem::create_directory(root / name_of(1) / "COMMITTED");
  std::filesystem::resize_file(root / name_of(2) / "index.json", uintmax_t{1} << 40);
  rig.save(3);
  rig.save(4);
  std::vector<std::string> kept = rig.kept();
  std::ranges::sort(kept);
  CHECK(kept == std::vector<std::string>{name_of(1), name_of(2), name_of(4)});
}

}  // namespace tenon
