// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/attempt_folder.hpp"

#include "host/error/error.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// As a run writes it: with every default.
constexpr char kRecipeOfAttempt[] = R"({"name": "a",
    "sinks": [{"type": "jsonl", "options": {"path": "metrics.jsonl"}},
              {"type": "jsonl", "options": {"path": "more/x.jsonl"}},
              {"type": "tensorboard", "options": {"folder": "."}},
              {"type": "odd", "options": {"into": ["tb/", "checkpoints", "exports/weights", "/",
                                                   "../beside", "attempt-7", "missing"]}}],
    "hooks": [{"type": "event_trace", "options": {"events": [], "path": "events.jsonl"}},
              {"type": "odd", "options": {"path": "${ENV:TENON_TEST_HOOK_FILE}.csv"}}]})";

// The files below a folder with their contents, by path.
std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[std::filesystem::relative(entry.path(), folder).string()] = file_text(entry.path());
    }
  }
  return files;
}

}  // namespace

TEST_CASE("what a start writes is put aside, and everything else stays", "[train]") {
  const ScratchFolder scratch;
  scratch.write("beside", "beside");
  ::setenv("TENON_TEST_HOOK_FILE", "by_variable", 1);
  std::map<std::string, std::string> expected;
  const auto write = [&](const std::string& name, const std::string& now) {
    scratch.write("run/" + name, name);
    expected[now] = name;
  };
  for (const std::string name : {"log.txt",
                                 "logs/rank-1.txt",
                                 "logs/profile-rank-1.json",
                                 "summary.json",
                                 "summary.json.part12",
                                 "recipe.json.tmp",
                                 "last_step",
                                 "last_checkpoint",
                                 "profile.json",
                                 "errors/report.txt",
                                 "errors-2/report.txt",
                                 "metrics.jsonl",
                                 "more/x.jsonl",
                                 "tb/events",
                                 "events.jsonl",
                                 "by_variable.csv",
                                 "events.out.tfevents.1.host.2.0"}) {
    write(name, "attempt-2/" + name);
  }
  for (const std::string name : {".lock",
                                 "attempt-1/log.txt",
                                 "attempt-7/log.txt",
                                 "checkpoints/latest",
                                 "errors-of-mine.txt",
                                 "exports/weights/step-5/COMMITTED",
                                 "more/notes.txt",
                                 "NOTES.md"}) {
    write(name, name);
  }
  scratch.write("run/recipe.json", kRecipeOfAttempt);
  expected["recipe.json"] = kRecipeOfAttempt;
  expected["attempt-2/recipe.json"] = kRecipeOfAttempt;
  const auto run = scratch.path() / "run";
  CHECK(put_attempt_aside(run.string()) == run.string() + "/attempt-2");
  CHECK(files_below(run) == expected);
  CHECK(put_attempt_aside(run.string()).empty());  // nothing but the recipe is left
  CHECK(files_below(run) == expected);
  CHECK(file_text(scratch.path() / "beside") == "beside");
}

TEST_CASE("a file in the way of the folder of an attempt stays", "[train]") {
  const ScratchFolder run;
  run.write("recipe.json", R"({"name": "a"})");
  run.write("log.txt", "lost");
  run.write("attempt-1", "mine");
  CHECK(put_attempt_aside(run.path().string()) == run.path().string() + "/attempt-2");
  CHECK(file_text(run.path() / "attempt-1") == "mine");
  CHECK(file_text(run.path() / "attempt-2" / "log.txt") == "lost");
}

TEST_CASE("an attempt that cannot be put aside is an error", "[train]") {
  const ScratchFolder run;
  run.write("log.txt", "lost");  // without a recipe, it is no run folder
  try {
    put_attempt_aside(run.path().string());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_unwritable");
    CHECK_THAT(error.what(), contains_text("recipe.json"));
  }
  CHECK(file_text(run.path() / "log.txt") == "lost");
}

TEST_CASE("an attempt whose recipe nests without bound is put aside", "[train]") {
  const ScratchFolder run;
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  run.write("recipe.json", R"({"name": "a", "sinks": )" + deep + "}");
  run.write("log.txt", "lost");
  CHECK(put_attempt_aside(run.path().string()) == run.path().string() + "/attempt-1");
  CHECK(file_text(run.path() / "attempt-1" / "log.txt") == "lost");
}

}  // namespace tenon
