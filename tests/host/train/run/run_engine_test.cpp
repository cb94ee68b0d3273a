// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_engine.hpp"

#include "host/train/run/run_checkpoints.hpp"

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Components, folder and engine of a rig, and one run.
Outcome run_engine(RunRig& rig) {
  std::optional<RunLock> lock;
  RunCheckpoints checkpoints(rig.context(), lock);
  RunComponents components(rig.context());
  const RunFolder folder = checkpoints.make_folder();
  Progress progress(Progress::Style::kQuiet);
  PublishedState published;
  RunEngine engine(rig.context(), components, checkpoints, folder);
  const SignalWatch signals;
  return engine.run({.progress = progress,
                     .published = published,
                     .signals = signals,
                     .on_failure = [](const Error& error) {
                       return FailedEnd{error, ExitCode::kFailed, false};
                     }});
}

}  // namespace

TEST_CASE("an engine trains, saves at the end and records its last step", "[train]") {
  RunRig rig;
  const Outcome outcome = run_engine(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(outcome.state.step == 6);
  CHECK_FALSE(outcome.parameters_hash.empty());
  REQUIRE(outcome.saves.has_value());
  CHECK(outcome.saves->committed == 1);
  CHECK(outcome.saves->last.ends_with("step-00000006_epoch-0"));
  CHECK(last_step_of(rig.run_dir().string()) == 6);
}

TEST_CASE("two engines of one recipe end with the same parameters", "[train]") {
  RunRig first;
  RunRig second(R"({"checkpoint": {"every_steps": 2}})");
  RunRig third(R"({"seed": 7})");
  const std::string hash = run_engine(first).parameters_hash;
  CHECK(run_engine(second).parameters_hash == hash);
  CHECK(run_engine(third).parameters_hash != hash);
}

TEST_CASE("without a checkpoint section's consent nothing is saved, and the step is known",
          "[train]") {
  RunRig rig("{}", {}, {"checkpoint=null"});
  const Outcome outcome = run_engine(rig);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK_FALSE(outcome.saves.has_value());
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "checkpoints"));
  CHECK(last_step_of(rig.run_dir().string()) == 6);
}

TEST_CASE("an engine that only evaluates neither saves nor records a step", "[train]") {
  RunRequest request;
  request.is_eval_only = true;
  RunRig rig(R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}}})", request);
  const Outcome outcome = run_engine(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(outcome.last_metrics.contains("eval/loss"));
  CHECK(outcome.state.step == 0);
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "checkpoints"));
  CHECK_FALSE(last_step_of(rig.run_dir().string()).has_value());
}

TEST_CASE("an engine keeps the best evaluation, and exports what it ends with", "[train]") {
  RunRig rig(R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}},
    "eval": {"every_steps": 2, "keep_best": {"metric": "eval/loss", "mode": "min"}},
    "checkpoint": {"exports": [{"format": "weights", "at_end": true}]}})");
  const Outcome outcome = run_engine(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  REQUIRE(outcome.best.has_value());
  REQUIRE(outcome.exports.has_value());
  CHECK(outcome.exports->committed == 1);
}

}  // namespace tenon
