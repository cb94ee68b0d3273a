// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/next_commands.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

RunRequest request_of(const std::string& arguments) {
  RunRequest request;
  request.command_line = "host " + arguments;
  request.program = "build/bin/host";
  request.plugin_options = "--plugin-dir build/plugins";
  return request;
}

Outcome saved(ExitCode code = ExitCode::kDone) {
  Outcome outcome;
  outcome.code = code;
  outcome.state.step = 300;
  outcome.saves = SaveCount{.committed = 1, .failed = 0, .last = "runs/a/checkpoints/step-300"};
  return outcome;
}

Recipe of_steps(int64_t steps) {
  Recipe recipe;
  recipe.train.steps = steps;
  return recipe;
}

const std::string kExport =
    "export: build/bin/host --plugin-dir build/plugins --export hf model --run-dir runs/a\n";

}  // namespace

TEST_CASE("a run that is done suggests an export and more steps", "[train]") {
  const RunRequest request = request_of("--recipe r.json --plugin-dir build/plugins");
  CHECK(next_commands(of_steps(300), request, saved(), "runs/a", "hf") ==
        kExport +
            "next: build/bin/host --recipe r.json --plugin-dir build/plugins --run-dir runs/a "
            "--set train.steps=600");
}

TEST_CASE("a run that was stopped suggests to resume it", "[train]") {
  RunRequest request = request_of("--recipe r.json --run-dir runs/a");
  request.run_dir = "runs/a";
  CHECK(next_commands(of_steps(300), request, saved(ExitCode::kStopped), "runs/a", "hf") ==
        kExport + "next: build/bin/host --recipe r.json --run-dir runs/a");
}

TEST_CASE("a run that was stopped before its first step suggests to resume it, and no export",
          "[train]") {
  Outcome stopped = saved(ExitCode::kStopped);
  stopped.state.step = 0;
  CHECK(next_commands(of_steps(300), request_of("--recipe r.json"), stopped, "runs/a", "hf") ==
        "next: build/bin/host --recipe r.json --run-dir runs/a");
}

TEST_CASE("where the same command would not resume, the checkpoint is to be inspected", "[train]") {
  const std::string inspect =
      kExport + "next: build/bin/host --inspect runs/a/checkpoints/step-300";
  for (const char* const arguments : {"--recipe r.json --resume runs/b",
                                      "--recipe r.json --import hf w --run-dir runs/a",
                                      "--recipe r.json --set train.steps=300"}) {
    INFO(arguments);
    CHECK(next_commands(of_steps(300), request_of(arguments), saved(), "runs/a", "hf") == inspect);
  }
  CHECK(next_commands(Recipe(), request_of("--recipe r.json"), saved(), "runs/a", "hf") == inspect);
}

TEST_CASE("a complete run that is resumed in another folder is exported from its own", "[train]") {
  Outcome complete = saved();
  complete.saves = SaveCount{};
  complete.is_already_complete = true;
  complete.resumed_from = "runs/a/checkpoints/step-300";
  CHECK_THAT(next_commands(of_steps(300), request_of("--resume runs/a"), complete, "runs/b", "hf"),
             contains_text(kExport));
}

TEST_CASE("names are quoted for a shell, and a model without a layout is exported for torch",
          "[train]") {
  CHECK_THAT(next_commands(Recipe(), request_of("--recipe r.json"), saved(), "my 'run'", "torch"),
             contains_text("--export torch model.pt --run-dir 'my '\\''run'\\'''\n"));
}

TEST_CASE("without a saved checkpoint nothing is suggested", "[train]") {
  const RunRequest request = request_of("--recipe r.json");
  Outcome none = saved();
  none.saves.reset();
  CHECK(next_commands(of_steps(3), request, none, "runs/a", "hf").empty());
  none.saves = SaveCount{};
  CHECK(next_commands(of_steps(3), request, none, "runs/a", "hf").empty());
  none = saved();
  none.state.step = 0;  // an import
  CHECK(next_commands(of_steps(3), request, none, "runs/a", "hf").empty());
  CHECK(next_commands(of_steps(3), request, saved(ExitCode::kFailed), "runs/a", "hf").empty());
  CHECK(next_commands(of_steps(3), RunRequest(), saved(), "runs/a", "hf").empty());
}

}  // namespace tenon
