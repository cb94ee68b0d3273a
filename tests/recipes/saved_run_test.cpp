// SPDX-License-Identifier: Apache-2.0
//
// A run keeps what it learned: what is saved without a section `checkpoint`, what is suggested
// then, and the warnings of commands that take a checkpoint from before the run's last step.
#include <csignal>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::string kWithEval =
    R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}}})";

std::vector<std::string> saved_in(const fs::path& run_dir) {
  std::vector<std::string> names = names_in(run_dir / "checkpoints");
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("step-"); });
  return names;
}

// The line of the output that begins so, without it; "" if there is none.
std::string line_of(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  const size_t from = at + 1 + begin.size();
  return at == std::string::npos ? "" : text.substr(from, text.find('\n', from) - from);
}

SubprocessResult in_shell(const fs::path& folder, const std::string& command) {
  return run_subprocess({"/bin/sh", "-c", "cd '" + folder.string() + "' && " + command});
}

}  // namespace

TEST_CASE("a run without a checkpoint section saves once, at its end", "[recipes]") {
  const HostRun run(small_recipe());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  CHECK(saved_in(run.run_dir()) == std::vector<std::string>{"step-00000006_epoch-0"});
  CHECK(run.summary()["checkpoints"]["committed"] == 1);
  CHECK_THAT(run.last_line(), contains_text("done: reached 6 steps"));
  const auto recipe = nlohmann::json::parse(run.file("recipe.json"));
  CHECK(recipe["checkpoint"]["keep_last"] == 1);
  CHECK(recipe["checkpoint"]["at_end"] == true);
}

TEST_CASE("a run that is stopped by a signal saves, and the command that it prints resumes it",
          "[recipes]") {
  const HostRun run(small_recipe(R"({"train": {"steps": 8}, "hooks": [{"type": "signal_at",
    "options": {"signals": [{"event": "before_step", "step": 3, "signal": "SIGTERM"}]}}]})"));
  INFO(run.result().out << run.result().err);
  CHECK(run.result().exit_code == 75);
  CHECK(saved_in(run.run_dir()) == std::vector<std::string>{"step-00000003_epoch-0"});
  const std::string next = line_of(run.result().out, "next: ");
  REQUIRE_FALSE(next.empty());
  const SubprocessResult resumed = in_shell(run.folder(), next);
  INFO(resumed.out << resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, contains_text("resumed from"));
  CHECK(run.summary()["steps"] == 8);
  CHECK(saved_in(run.run_dir()) == std::vector<std::string>{"step-00000008_epoch-1"});
}

TEST_CASE("a run ends with commands that export its model and train on", "[recipes]") {
  const HostRun run(small_language_recipe());
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const SubprocessResult exported = in_shell(run.folder(), line_of(run.result().out, "export: "));
  INFO(exported.out << exported.err);
  CHECK(exported.exit_code == 0);
  CHECK(exported.err.empty());
  CHECK(fs::exists(run.folder() / "model" / "model.safetensors"));
  const SubprocessResult longer = in_shell(run.folder(), line_of(run.result().out, "next: "));
  INFO(longer.out << longer.err);
  CHECK(longer.exit_code == 0);
  CHECK(run.summary()["steps"] == 24);
  CHECK(run.summary()["resumed"]["step"] == 12);
}

TEST_CASE("launched ranks suggest the program as it was called", "[recipes][multi-rank]") {
  const HostRun run(small_recipe(), {"--launch", "2"});
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const SubprocessResult longer = in_shell(run.folder(), line_of(run.result().out, "next: "));
  INFO(longer.out << longer.err);
  CHECK(longer.exit_code == 0);
  CHECK(run.summary()["steps"] == 12);
}

TEST_CASE("\"checkpoint\": null saves nothing and suggests nothing", "[recipes]") {
  const HostRun run(small_recipe(), {"--set", "checkpoint=null"});
  REQUIRE(run.result().exit_code == 0);
  CHECK_FALSE(fs::exists(run.run_dir() / "checkpoints"));
  CHECK(run.summary()["checkpoints"].is_null());
  const auto recipe = nlohmann::json::parse(run.file("recipe.json"));
  REQUIRE(recipe.contains("checkpoint"));
  CHECK(recipe["checkpoint"].is_null());
  CHECK(line_of(run.result().out, "export: ").empty());
  CHECK(line_of(run.result().out, "next: ").empty());
}

TEST_CASE("an evaluation and a run that fails save nothing", "[recipes]") {
  const HostRun evaluated(small_recipe(kWithEval), {"--eval-only"});
  INFO(evaluated.result().err);
  REQUIRE(evaluated.result().exit_code == 0);
  CHECK(saved_in(evaluated.run_dir()).empty());
  CHECK(line_of(evaluated.result().out, "export: ").empty());
  const HostRun failed(small_recipe(
      R"({"hooks": [{"type": "fail_at", "options": {"event": "before_step", "step": 3}}]})"));
  CHECK(failed.result().exit_code != 0);
  CHECK(saved_in(failed.run_dir()).empty());
  CHECK(line_of(failed.result().out, "export: ").empty());
}

TEST_CASE("resume, --eval-only and --export warn of training that the checkpoint lacks",
          "[recipes]") {
  const std::string saving = R"({"checkpoint": {"every_steps": 4, "at_end": false}})";
  const HostRun run(small_recipe(patched(kWithEval, saving)));
  REQUIRE(run.result().exit_code == 0);
  CHECK(saved_in(run.run_dir()) == std::vector<std::string>{"step-00000004_epoch-0"});
  const std::string lacks = "is from step 4, but the run trained on to step 6";
  const auto file = run.folder() / "recipe.json";
  const SubprocessResult evaluated = run_host(
      file, run.folder() / "evaluated", 1, {"--eval-only", "--resume", run.run_dir().string()});
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.err, contains_text(lacks));
  const SubprocessResult exported = run_host({"--export",
                                              "torch",
                                              (run.folder() / "model.pt").string(),
                                              "--run-dir",
                                              run.run_dir().string()});
  INFO(exported.out << exported.err);
  CHECK(exported.exit_code == 0);
  CHECK_THAT(exported.err, contains_text(lacks + "; the export is without that training"));
  const SubprocessResult resumed = run_host(file, run.run_dir());
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.err, contains_text(lacks + "; the run resumes without that training"));
}

TEST_CASE("a run killed after its last save is resumed with a warning", "[recipes]") {
  const std::string kill = R"({"checkpoint": {"every_steps": 2}, "hooks": [{"type": "fail_at",
    "options": {"event": "before_step", "step": 6, "how": "kill"}}]})";
  const HostRun run(small_recipe(kill));
  CHECK(run.result().exit_code == 128 + SIGKILL);
  fs::remove_all(run.run_dir() / "checkpoints" / "step-00000004_epoch-0");
  const SubprocessResult resumed =
      run_host(run.folder() / "recipe.json", run.run_dir(), 1, {"--set", "hooks=[]"});
  INFO(resumed.out << resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.err, contains_text("is from step 2, but the run trained on to step 5"));
}

TEST_CASE("an export never takes the weights that a run started from without a word",
          "[recipes][.release]") {
  const HostRun first(small_language_recipe());
  const auto file = first.folder() / "recipe.json";
  const auto weights = first.folder() / "weights";
  const auto run = first.folder() / "imported";
  REQUIRE(run_host({"--export", "hf", weights.string(), "--run-dir", first.run_dir().string()})
              .exit_code == 0);
  REQUIRE(run_host(file, run, 1, {"--import", "hf", weights.string()}).exit_code == 0);
  const auto exported = [&](const std::string& to) {
    return run_host({"--export", "hf", (first.folder() / to).string(), "--run-dir", run.string()})
        .err;
  };
  CHECK_THAT(exported("a"),
             contains_text("is from step 0, the initial weights: no training is exported"));
  REQUIRE(run_host(file, run, 1, {"--set", "checkpoint=null"}).exit_code == 0);
  CHECK_THAT(exported("b"),
             contains_text("is from step 0, the initial weights, but the run trained on to step 12;"
                           " the export is without that training"));
  REQUIRE(run_host(file, run).exit_code == 0);
  CHECK(exported("c").empty());
}

}  // namespace tenon
