// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_checkpoints.hpp"

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/train/resume/last_checkpoint.hpp"
#include "host/train/resume/last_step.hpp"

#include <filesystem>
#include <fstream>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"

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
        checkpoints.storage_at(folder.path()), rig.context().ranks, {.retries = 0});
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

TEST_CASE("files that a run reads are compared with those of the checkpoint", "[train]") {
  const auto records = [](const std::string& hash) {
    return std::vector<SourceRecord>{
        {.place = "/data/train", .files = {{.name = "a.csv", .bytes = 7, .hash = hash}}}};
  };
  // Saves a checkpoint with one record, if there is one, and resumes with another.
  const auto resume = [&](const RunRig& rig,
                          const std::optional<std::vector<SourceRecord>>& then,
                          const std::vector<SourceRecord>& now) {
    {
      std::optional<RunLock> lock;
      RunCheckpoints checkpoints(rig.context(), lock);
      if (then.has_value()) {
        checkpoints.use_sources(*then);
      }
      const RunFolder folder = checkpoints.make_folder();
      folder.write("recipe.json", frozen_recipe(rig.recipe()));
      CheckpointSaver saver(
          checkpoints.storage_at(folder.path()), rig.context().ranks, {.retries = 0});
      saver.begin("step-2", StateTree(), checkpoints.metadata(), frozen_recipe(rig.recipe()));
      REQUIRE_FALSE(saver.finish().has_value());
    }
    std::optional<RunLock> lock;
    RunCheckpoints checkpoints(rig.context(), lock);
    checkpoints.use_sources(now);
    const RunFolder folder = checkpoints.make_folder();
    checkpoints.find(folder)->next();
  };
  SECTION("the same") {
    RunRig rig("{}", automatic());
    resume(rig, records("whole:1"), records("whole:1"));
    CHECK(rig.log().find("a.csv") == std::string::npos);
  }
  SECTION("others") {
    RunRig rig("{}", automatic());
    CHECK_THROWS_WITH(
        resume(rig, records("whole:1"), records("whole:2")),
        contains_text("[data.changed]") && contains_text("step-2: /data/train: a.csv"));
  }
  SECTION("others, which the recipe accepts") {
    RunRig rig(R"({"data": {"on_change": "continue"}})", automatic());
    resume(rig, records("whole:1"), records("whole:2"));
    CHECK_THAT(rig.log(), contains_text("a.csv has other content"));
  }
  SECTION("others of an evaluation set") {
    const auto of_eval = [](std::vector<SourceRecord> all) {
      all[0].place = "/data/eval/late";
      return all;
    };
    const bool is_compared = GENERATE(false, true);
    const std::string best = R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}},
      "eval": {"every_steps": 1, "keep_best": {"metric": "eval/loss", "mode": "min"}}})";
    RunRig rig(is_compared ? best : "{}", automatic());
    if (is_compared) {
      CHECK_THROWS_WITH(resume(rig, of_eval(records("whole:1")), of_eval(records("whole:2"))),
                        contains_text("[data.changed]"));
    } else {
      resume(rig, of_eval(records("whole:1")), of_eval(records("whole:2")));
      CHECK_THAT(rig.log(), contains_text("/data/eval/late: a.csv has other content"));
    }
  }
  SECTION("others, in an evaluation of the checkpoint") {
    RunRequest request = automatic();
    request.is_eval_only = true;
    RunRig rig("{}", request);
    resume(rig, records("whole:1"), records("whole:2"));
    CHECK(rig.log().find("a.csv") == std::string::npos);
  }
  SECTION("a checkpoint without a record, of an earlier release") {
    RunRig rig("{}", automatic());
    resume(rig, std::nullopt, records("whole:2"));
    CHECK_THAT(rig.log(), contains_text("step-2 does not record the files of its data"));
  }
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

TEST_CASE("a run that was lost before it saved starts over in its folder, and loses no file",
          "[train]") {
  RunRequest request;
  SECTION("by the same command") {
    request = automatic();
  }
  SECTION("on request") {}
  SECTION("if its ranks are restarted") {
    request.ranks.restart = 1;
  }
  RunRig rig("{}", request);
  save_run(rig, {}, 3);
  const auto write = [&](const char* name) { std::ofstream(rig.run_dir() / name) << name; };
  write("NOTES.md");
  write("metrics.jsonl");
  CHECK_FALSE(resumed_step(rig).has_value());
  CHECK_THAT(rig.log(), contains_text("ended before its first checkpoint"));
  CHECK_THAT(rig.log(), contains_text("are in " + rig.run_dir().string() + "/attempt-1"));
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "last_step"));
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "metrics.jsonl"));
  CHECK(last_step_of((rig.run_dir() / "attempt-1").string()) == 3);
  CHECK(file_text(rig.run_dir() / "attempt-1" / "metrics.jsonl") == "metrics.jsonl");
  CHECK(file_text(rig.run_dir() / "NOTES.md") == "NOTES.md");
}

TEST_CASE("a run whose checkpoints are gone does not start over by itself", "[train]") {
  RunRequest request;
  SECTION("by the same command") {
    request = automatic();
  }
  SECTION("to be evaluated") {
    request = automatic();
    request.is_eval_only = true;
  }
  SECTION("if its ranks are restarted") {
    request.ranks.restart = 1;
  }
  RunRig rig("{}", request);
  save_run(rig, {2, 4}, 5);
  const std::string recorded = (rig.run_dir() / "checkpoints" / "step-4").string();
  write_last_checkpoint(rig.run_dir().string(), recorded);
  // Not mounted, mounted empty, or without the file that makes a checkpoint one.
  std::filesystem::rename(rig.run_dir() / "checkpoints", rig.folder() / "elsewhere");
  for (const char* const is_there : {"", "checkpoints", "checkpoints/step-4"}) {
    INFO(is_there);
    std::filesystem::create_directory(rig.run_dir() / is_there);
    try {
      resumed_step(rig);
      FAIL("it started over");
    } catch (const Error& error) {
      CHECK(error.id() == "resume.checkpoints_gone");
      CHECK(error.exit_code() == ExitCode::kUsage);
      for (const std::string& part : {rig.run_dir().string(), recorded}) {
        CHECK_THAT(error.what(), contains_text(part));
      }
      for (const char* const way_out : {"restore", "--run-dir", "--resume none"}) {
        CHECK_THAT(error.what(), contains_text(way_out));
      }
    }
    CHECK(last_step_of(rig.run_dir().string()) == 5);
    CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "attempt-1"));
    CHECK_FALSE(std::filesystem::exists(rig.run_dir() / ".lock"));
  }
}

TEST_CASE("on request a run whose checkpoints are gone starts over", "[train]") {
  RunRig rig;
  save_run(rig, {2}, 5);
  write_last_checkpoint(rig.run_dir().string(), "the last");
  try {
    resumed_step(rig);
    FAIL("its checkpoint is there");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_exists");
  }
  std::filesystem::rename(rig.run_dir() / "checkpoints", rig.folder() / "elsewhere");
  CHECK_FALSE(resumed_step(rig).has_value());
  CHECK_FALSE(last_checkpoint_of(rig.run_dir().string()).has_value());
  CHECK(last_checkpoint_of((rig.run_dir() / "attempt-1").string()) == "the last");
  CHECK(last_step_of((rig.run_dir() / "attempt-1").string()) == 5);
}

TEST_CASE("a run that resumes records its checkpoint if the record is missing", "[train]") {
  RunRig rig("{}", automatic());
  save_run(rig, {2, 4}, 4);
  REQUIRE_FALSE(last_checkpoint_of(rig.run_dir().string()).has_value());  // as after a crash
  CHECK(resumed_step(rig) == 4);
  CHECK(last_checkpoint_of(rig.run_dir().string()) ==
        (rig.run_dir() / "checkpoints" / "step-4").string());
}

TEST_CASE("a folder is not used again by a run that makes a new one", "[train]") {
  RunRequest request;
  SECTION("to evaluate") {
    request.is_eval_only = true;
  }
  SECTION("to import weights") {
    request.weights.format = "hf";
  }
  SECTION("to resume from elsewhere") {
    request.resume = {.from = ResumeFrom::kPath, .path = "elsewhere"};
  }
  RunRig rig("{}", request);
  std::filesystem::create_directory(rig.run_dir());
  std::ofstream(rig.run_dir() / "recipe.json") << frozen_recipe(rig.recipe());
  for (const bool is_recorded : {false, true}) {
    if (is_recorded) {
      write_last_checkpoint(rig.run_dir().string(), "the last");
    }
    try {
      resumed_step(rig);
      FAIL("the folder is not empty");
    } catch (const Error& error) {
      CHECK(error.id() == "run.dir_exists");
    }
  }
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

TEST_CASE("a lost attempt begins again with what it began with", "[train]") {
  RunRig source("{}", automatic());
  save_run(source, {2, 4}, 4);
  RunRequest from;
  from.resume = {.from = ResumeFrom::kPath, .path = source.run_dir().string()};
  const auto begin = [](const RunRig& rig) {
    std::optional<RunLock> lock;
    RunCheckpoints checkpoints(rig.context(), lock);
    const RunFolder folder = checkpoints.make_folder();
    checkpoints.write_beginning(folder);
    folder.write("recipe.json", frozen_recipe(rig.recipe()));
  };
  const auto ask_again = [](RunRig& rig, ResumeFrom from) {
    rig.request().resume = {.from = from};
    rig.request().weights = {};
    rig.request().tables = {};
  };
  SECTION("a checkpoint of another run") {
    RunRig rig("{}", from);
    begin(rig);
    CHECK(beginning_of(rig.run_dir().string()).options() ==
          "--resume " + source.run_dir().string());
    CHECK(resumed_step(rig) == 4);  // by the same command
    ask_again(rig, ResumeFrom::kAuto);
    CHECK(resumed_step(rig) == 4);
    CHECK_THAT(rig.log(), contains_text("beginning again with --resume "));
    ask_again(rig, ResumeFrom::kNone);
    CHECK_FALSE(resumed_step(rig).has_value());
  }
  SECTION("table rows") {
    RunRequest tables = automatic();
    tables.tables.import_from = "/rows";
    RunRig rig("{}", tables);
    begin(rig);
    ask_again(rig, ResumeFrom::kAuto);
    std::optional<RunLock> lock;
    RunCheckpoints checkpoints(rig.context(), lock);
    checkpoints.find(checkpoints.make_folder());
    CHECK(checkpoints.tables_from() == "/rows");
  }
  SECTION("an import has to be repeated") {
    RunRequest import;
    import.weights = {.format = "hf", .from = "/weights"};
    RunRig rig("{}", import);
    begin(rig);
    CHECK_FALSE(resumed_step(rig).has_value());  // by the same command
    ask_again(rig, ResumeFrom::kAuto);
    try {
      resumed_step(rig);
      FAIL("it would train random parameters");
    } catch (const Error& error) {
      CHECK(error.id() == "run.import_lost");
      CHECK_THAT(error.what(), contains_text("--import hf /weights --run-dir "));
    }
  }
}

}  // namespace tenon
