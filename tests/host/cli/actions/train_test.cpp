// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("each option of a run is read, with '=' and without", "[cli]") {
  const CommandLine line = parse_command_line({"--plugin-dir",
                                               "a",
                                               "--recipe=r.json",
                                               "--set",
                                               "train.steps=10",
                                               "--plugin-dir=b",
                                               "--set=name=x y",
                                               "--run-dir",
                                               "out",
                                               "--quiet",
                                               "--log-level",
                                               "debug",
                                               "--no-vet-cache"});
  CHECK(line == CommandLine{.action = &kTrainAction,
                            .recipe = "r.json",
                            .plugin_dirs = {"a", "b"},
                            .sets = {"train.steps=10", "name=x y"},
                            .run_dir = "out",
                            .resume = {.from = ResumeFrom::kAuto},
                            .log_level = LogLevel::kDebug,
                            .is_quiet = true,
                            .use_vet_cache = false});
}

TEST_CASE("a run in a folder that is named goes on with what is in it", "[cli]") {
  const auto resume = [](Words words) {
    words.insert(words.begin(), {"--recipe", "a.json"});
    return parse_command_line(words).resume;
  };
  CHECK(resume({}) == ResumeRequest{.from = ResumeFrom::kNone});
  CHECK(resume({"--run-dir", "out"}) == ResumeRequest{.from = ResumeFrom::kAuto});
  CHECK(resume({"--run-dir", "out", "--resume", "none"}).from == ResumeFrom::kNone);
  CHECK(resume({"--resume", "auto"}).from == ResumeFrom::kAuto);
  CHECK(resume({"--resume=runs/one"}) ==
        ResumeRequest{.from = ResumeFrom::kPath, .path = "runs/one"});
  CHECK(resume({"--resume=./auto"}).path == "./auto");
  // An evaluation is of what is asked for, not of what happens to be there.
  CHECK(resume({"--eval-only", "--run-dir", "out"}).from == ResumeFrom::kNone);
  CHECK(resume({"--eval-only", "--resume", "auto"}).from == ResumeFrom::kAuto);
}

TEST_CASE("what --resume has no effect on, or contradicts, is refused", "[cli]") {
  CHECK_THAT(usage_failure({"--recipe", "a", "--resume"}),
             contains_text("--resume needs a value: --resume auto|none|PATH"));
  CHECK_THAT(usage_failure({"--recipe", "a", "--validate", "--resume", "auto"}),
             contains_text("--resume has no effect with --validate"));
  CHECK_THAT(usage_failure({"--recipe", "a", "--resume", "b", "--import-tables", "c"}),
             contains_text("--resume and --import-tables contradict each other"));
  CHECK(usage_failure({"--recipe", "a", "--resume", "auto", "--import-tables", "c"}) == "no error");
  CHECK(usage_failure({"--recipe", "a", "--resume", "none", "--import-tables", "c"}) == "no error");
}

TEST_CASE("a run takes rows from one folder and leaves them in another", "[cli]") {
  const CommandLine line = parse_command_line(
      {"--recipe", "r", "--import-tables", "a", "--export-tables", "b", "--export-slots"});
  CHECK(line.tables == TableFolders{.import_from = "a", .export_to = "b", .has_slots = true});
  CHECK(parse_command_line({"--recipe", "r", "--eval-only", "--import-tables", "a"})
            .tables.import_from == "a");
  CHECK_THAT(usage_failure({"--recipe", "r", "--eval-only", "--export-tables", "a"}),
             contains_text("has no effect"));
  CHECK_THAT(usage_failure({"--recipe", "r", "--export-slots"}),
             contains_text("--export-slots has no effect without --export-tables DIR"));
}

TEST_CASE("the steps of a profile are a range that begins at 1 or later", "[cli]") {
  const auto steps_of = [](const std::string& text) {
    return parse_command_line({"--recipe", "a", "--profile", text}).profile;
  };
  CHECK(steps_of("steps=20..25") == StepRange{.first = 20, .last = 25});
  CHECK(steps_of("steps=1..1") == StepRange{.first = 1, .last = 1});
  CHECK(!parse_command_line({"--recipe", "a"}).profile.has_value());
  for (const std::string text : {"20..25",
                                 "steps=20",
                                 "steps=..",
                                 "steps=2..",
                                 "steps=..2",
                                 "steps=a..b",
                                 "steps=1..2x",
                                 "steps= 1..2",
                                 "steps=-1..2",
                                 "steps=1...2",
                                 "steps=1..99999999999999999999"}) {
    CHECK(usage_failure({"--recipe", "a", "--profile", text}) ==
          "usage.bad_option: --profile: expected steps=A..B, as in steps=20..25, found \"" + text +
              "\"");
  }
  CHECK(usage_failure({"--recipe", "a", "--profile", "steps=0..3"}) ==
        "usage.bad_option: --profile is \"steps=0..3\"; the first step is 1");
  CHECK(usage_failure({"--recipe", "a", "--profile", "steps=4..3"}) ==
        "usage.bad_option: --profile is \"steps=4..3\"; its first step comes after its last");
  CHECK_THAT(usage_failure({"--recipe", "a", "--validate", "--profile", "steps=1..2"}),
             contains_text("--profile has no effect with --validate"));
}

}  // namespace tenon
