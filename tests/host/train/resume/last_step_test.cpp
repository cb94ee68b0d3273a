// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/last_step.hpp"

#include <filesystem>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

CheckpointMetadata at_step(uint64_t step) {
  CheckpointMetadata metadata;
  metadata.step = step;
  return metadata;
}

}  // namespace

TEST_CASE("the last step is the one that was written last, also a smaller one", "[train]") {
  const ScratchFolder run;
  const std::string path = run.path().string();
  {
    LastStepWriter writer(path);
    CHECK_FALSE(last_step_of(path).has_value());  // nothing is opened before a step
    writer.write(100'000);
    writer.write(99);
    CHECK(last_step_of(path) == 99);
  }
  CHECK(last_step_of(path) == 99);
  LastStepWriter(path).write(7);  // a run that resumes
  CHECK(last_step_of(path) == 7);
  CHECK(file_text(run.path() / "last_step").size() == 21);
}

TEST_CASE("the run is found from its folder, its checkpoints and its exports", "[train]") {
  const ScratchFolder folder;
  const auto run = folder.path() / "runs" / "a";
  folder.write("runs/a/recipe.json", "{}");
  folder.write("runs/a/checkpoints/step-5/recipe.json", "{}");
  folder.write("runs/a/checkpoints/step-5/index.json", "{}");
  folder.write("runs/a/exports/weights/step-5/index.json", "{}");
  folder.write("runs/b/recipe.json", "{}");
  folder.write("last_step", "1");  // of nobody: above the run folders
  LastStepWriter(run.string()).write(12);
  for (const char* const path :
       {"", "/", "/checkpoints", "/checkpoints/step-5", "/exports/weights/step-5"}) {
    INFO(path);
    CHECK(last_step_of(run.string() + path) == 12);
  }
  CHECK_FALSE(last_step_of((folder.path() / "runs" / "b").string()).has_value());
}

TEST_CASE("a FIFO or a link in place of the last step is neither waited for nor followed",
          "[train]") {
  const ScratchFolder folder;
  const auto file = folder.path() / "last_step";
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK_FALSE(last_step_of(folder.path().string()).has_value());
  LastStepWriter(folder.path().string()).write(3);
  CHECK_FALSE(last_step_of(folder.path().string()).has_value());
  std::filesystem::remove(file);
  const auto victim = folder.write("victim", "precious");
  std::filesystem::create_symlink(victim, file);
  LastStepWriter(folder.path().string()).write(3);
  CHECK(file_text(victim) == "precious");
}

TEST_CASE("a step that cannot be recorded costs no run", "[train]") {
  const ScratchFolder folder;
  LastStepWriter writer((folder.path() / "missing").string());
  writer.write(1);
  writer.write(2);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a checkpoint of before the last step gets a warning that names both", "[train]") {
  const ScratchFolder folder;
  folder.write("recipe.json", "{}");
  const std::string run = folder.path().string();
  LastStepWriter(run).write(300);
  const auto text = [&](uint64_t step, CheckpointUse use) {
    return missing_training_text(run, "A", at_step(step), use).value_or("");
  };
  CHECK(text(300, CheckpointUse::kResume).empty());
  CHECK(text(300, CheckpointUse::kExport).empty());
  CHECK(text(301, CheckpointUse::kEvaluate).empty());
  CHECK(text(200, CheckpointUse::kResume) ==
        "A is from step 200, but the run trained on to step 300; the run resumes without that "
        "training");
  CHECK(text(200, CheckpointUse::kEvaluate) ==
        "A is from step 200, but the run trained on to step 300; the evaluation is without that "
        "training");
  CHECK(text(0, CheckpointUse::kExport) ==
        "A is from step 0, the initial weights, but the run trained on to step 300; the export is "
        "without that training");
}

TEST_CASE("an export of initial weights gets a warning, a run that starts there does not",
          "[train]") {
  const ScratchFolder folder;
  folder.write("recipe.json", "{}");
  const std::string run = folder.path().string();
  CHECK(missing_training_text(run, "A", at_step(0), CheckpointUse::kExport) ==
        "A is from step 0, the initial weights: no training is exported");
  CHECK_FALSE(missing_training_text(run, "A", at_step(0), CheckpointUse::kResume).has_value());
  CHECK_FALSE(missing_training_text(run, "A", at_step(9), CheckpointUse::kExport).has_value());
}

}  // namespace tenon
