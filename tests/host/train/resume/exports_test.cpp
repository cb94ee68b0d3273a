// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/exports.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

StateTree state_of_run() {
  StateTree tree;
  tree.put_tensor("parameters/values/w", at::ones({3}), StateTree::Copy::kNo);
  tree.put_tensor("parameters/values/frozen", at::ones({2}), StateTree::Copy::kNo);
  tree.put_tensor("optimizer/slots/m/w", at::ones({3}), StateTree::Copy::kNo);
  tree.put_int("run/step", 4);
  tree.set_version("optimizer", 2);
  return tree;
}

// Exports of the format "weights" on one rank.
struct ExportRig {
  explicit ExportRig(ExportRecipe asked) : recipe(asked) {}

  void make(const std::string& name, const StateTree::NameTest& excluded = {}) {
    one.begin(name, state_of_run(), excluded, {}, "{}");
    one.saver().finish();
  }

  ScratchFolder folder;
  ExportRecipe recipe;
  std::shared_ptr<CheckpointStore> storage =
      std::make_shared<LocalStorage>((folder.path() / "made").string());
  RankGroups ranks;
  Export one{recipe,
             {.made = storage, .shares = nullptr},
             ranks,
             /*retries=*/0,
             std::nullopt};
};

}  // namespace

TEST_CASE("exports have parameters, buffers and rows, no state of optimizers", "[train]") {
  for (const char* const name : {"",
                                 "parameters",
                                 "parameters/values/w",
                                 "parameters/buffers/mean",
                                 "tables/users/ids",
                                 "tables/users/values"}) {
    INFO(name);
    CHECK_FALSE(is_no_weight(name));
  }
  for (const char* const name :
       {"optimizer/slots/m/w", "run/step", "tables/users/slot_0", "parameters_of_another"}) {
    INFO(name);
    CHECK(is_no_weight(name));
  }
}

TEST_CASE("a part of a tree shares what it keeps, and lacks the rest with its versions",
          "[train]") {
  const StateTree part = part_of(state_of_run(), is_no_weight);
  CHECK(part.entries().size() == 2);
  CHECK(part.find("run/step") == nullptr);
  CHECK(part.version("optimizer") == 0);
  CHECK(part.get_tensor("parameters/values/w").equal(at::ones({3})));
}

TEST_CASE("an export is due by its own schedule", "[train]") {
  const ExportRig rig({.every = {.steps = 4, .epochs = 2}});
  CHECK(rig.one.is_due(RunBoundary::kStep, {.step = 8}));
  CHECK_FALSE(rig.one.is_due(RunBoundary::kStep, {.step = 9}));
  CHECK(rig.one.is_due(RunBoundary::kEpoch, {.epochs = 2}));
  CHECK_FALSE(rig.one.is_due(RunBoundary::kWindow, {.step = 8, .windows = 1}));
  CHECK_FALSE(rig.one.is_due(RunBoundary::kStart, {.step = 8}));
}

TEST_CASE("an export exists once it is whole, and says what it is", "[train]") {
  ExportRig rig({});
  CHECK_FALSE(rig.one.is_there("step-4"));
  rig.make("step-4", [](std::string_view name) { return name == "parameters/values/frozen"; });
  CHECK(rig.one.is_begun("step-4"));
  CHECK(rig.one.is_there("step-4"));
  const CheckpointReader reader(rig.storage, "step-4");
  CHECK(reader.index().metadata.kind == kWeightsCheckpoint);
  CHECK(reader.index().shared.tensors.size() == 1);
  CHECK(reader.index().shared.tensors.contains("parameters/values/w"));
}

TEST_CASE("the newest exports stay", "[train]") {
  ExportRig rig({.keep_last = 2});
  for (const char* const name : {"step-1", "step-2", "step-3"}) {
    rig.make(name);
  }
  CHECK(rig.storage->list() == std::vector<std::string>{"step-2", "step-3"});
}

TEST_CASE("copies of exports are neither counted nor removed", "[train]") {
  ExportRig rig({.keep_last = 1});
  rig.make("step-1");
  const auto made = rig.folder.path() / "made";
  for (const char* const copy : {"step-1.bak", "step-1_2", "step-1 (copy)"}) {
    std::filesystem::copy(made / "step-1", made / copy);
  }
  for (const char* const name : {"step-2", "step-3"}) {
    rig.make(name);
  }
  CHECK(rig.storage->list() == std::vector<std::string>{"step-1.bak", "step-1_2", "step-3"});
  CHECK(std::filesystem::exists(made / "step-1 (copy)" / "index.json"));
}

}  // namespace tenon
