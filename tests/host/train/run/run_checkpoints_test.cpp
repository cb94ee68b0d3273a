// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_checkpoints.hpp"

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/train/resume/last_step.hpp"

#include <filesystem>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// As the command line asks: with --run-dir alone.
RunRequest automatic() {
  RunRequest request;
  request.resume.from = ResumeFrom::kAuto;
  return request;
}

// A run of the rig's recipe that saved a checkpoint of each step and trained to `last`.
void save_run(const RunRig& rig, const std::vector<uint64_t>& steps, uint64_t last) {
  std::optional<RunLock> lock;
  RunCheckpoints checkpoints(rig.context(), lock);
  const RunFolder folder = checkpoints.make_folder();
  folder.write("recipe.json", frozen_recipe(rig.recipe()));
  for (const uint64_t step : steps) {
    CheckpointSaver saver(
        checkpoints.storage_at(folder.path()), rig.context().world.control(), {}, {.retries = 0});
    CheckpointMetadata metadata = checkpoints.metadata();
    metadata.step = step;
    saver.begin("step-" + std::to_string(step), StateTree(), metadata, frozen_recipe(rig.recipe()));
    REQUIRE_FALSE(saver.finish().has_value());
  }
  if (last > 0) {
    LastStepWriter(folder.path()).write(last);
  }
}

// The step of the checkpoint that a run resumes from; none if it starts over.
std::optional<uint64_t> resumed_step(const RunRig& rig) {
  std::optional<RunLock> lock;
  RunCheckpoints checkpoints(rig.context(), lock);
  const RunFolder folder = checkpoints.make_folder();
  ResumeCandidates* const saved = checkpoints.find(folder);
  if (saved == nullptr) {
    return std::nullopt;
  }
  saved->next();
  return saved->reader().index().metadata.step;
}

}  // namespace

TEST_CASE("a run in a new folder starts over, and holds the folder's lock", "[train]") {
  RunRig rig("{}", automatic());
  std::optional<RunLock> lock;
  RunCheckpoints checkpoints(rig.context(), lock);
  const RunFolder folder = checkpoints.make_folder();
  CHECK(folder.path() == rig.run_dir());
  CHECK(lock.has_value());
  CHECK_FALSE(checkpoints.has_some());
  CHECK(checkpoints.find(folder) == nullptr);
  CHECK(checkpoints.metadata().run == "rig");
  CHECK(checkpoints.metadata().kind == kFullCheckpoint);
  CHECK(checkpoints.metadata().device == "cpu");
}

TEST_CASE("a run resumes from the newest checkpoint of its folder", "[train]") {
  RunRig rig("{}", automatic());
  save_run(rig, {2, 4}, 4);
  CHECK(resumed_step(rig) == 4);
  CHECK(rig.log().find("trained on") == std::string::npos);
}

TEST_CASE("a run that trained past its newest checkpoint gets a warning when it resumes",
          "[train]") {
  RunRig rig("{}", automatic());
  save_run(rig, {2, 4}, 5);
  CHECK(resumed_step(rig) == 4);
  CHECK_THAT(rig.log(), contains_text("step-4 is from step 4, but the run trained on to step 5"));
}

TEST_CASE("a run resumes elsewhere from a checkpoint that is named", "[train]") {
  RunRig first("{}", automatic());
  save_run(first, {2, 4}, 4);
  RunRequest request;
  request.resume = {.from = ResumeFrom::kPath,
                    .path = (first.run_dir() / "checkpoints" / "step-2").string()};
  RunRig second("{}", request);
  CHECK(resumed_step(second) == 2);
  CHECK_THAT(second.log(), contains_text("is from step 2, but the run trained on to step 4"));
}

TEST_CASE("a run of another seed does not resume", "[train]") {
  RunRig rig("{}", automatic());
  save_run(rig, {2}, 2);
  RunRequest request;
  request.resume = {.from = ResumeFrom::kPath, .path = rig.run_dir().string()};
  RunRig other(R"({"seed": 9})", request);
  try {
    resumed_step(other);
    FAIL("another seed is another run");
  } catch (const Error& error) {
    CHECK(error.id() == "resume.recipe_changed");
  }
}

TEST_CASE("a run that was lost before it saved starts over in its folder", "[train]") {
  RunRig rig("{}", automatic());
  save_run(rig, {}, 3);
  CHECK_FALSE(resumed_step(rig).has_value());
  CHECK_THAT(rig.log(), contains_text("ended before its first checkpoint"));
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "last_step"));
}

TEST_CASE("where nothing is saved a folder in use is refused", "[train]") {
  RunRig rig("{}", automatic(), {"checkpoint=null"});
  save_run(rig, {}, 3);
  try {
    resumed_step(rig);
    FAIL("the folder is not empty");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_exists");
  }
}

}  // namespace tenon
