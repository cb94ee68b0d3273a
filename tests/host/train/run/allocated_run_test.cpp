// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/allocated_run.hpp"

#include "host/train/trainer.hpp"

#include "tests/host/train/run/run_rig.hpp"
#include "tests/host/train/test_owner.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Plans, allocates and trains the recipe of a rig.
Outcome run_of(RunRig& rig) {
  std::optional<RunLock> lock;
  RunCheckpoints checkpoints(rig.context(), lock);
  const auto plan = rig.plan();
  const RunFolder folder = checkpoints.make_folder();
  Journal journal(/*attempt=*/1, /*rank=*/0);
  const SignalWatch signals;
  TestOwner owner;
  AllocatedRun run({.context = rig.context(),
                    .checkpoints = checkpoints,
                    .folder = folder,
                    .journal = journal,
                    .signals = signals,
                    .owner = owner},
                   *plan);
  Outcome outcome = Trainer(run.services()).run();
  outcome.parameters_hash = run.services().model.parameters.hash();
  return outcome;
}

}  // namespace

TEST_CASE("a run trains, saves at the end and records its last step", "[train]") {
  RunRig rig;
  const Outcome outcome = run_of(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(outcome.state.step == 6);
  CHECK_FALSE(outcome.parameters_hash.empty());
  REQUIRE(outcome.saves.has_value());
  CHECK(outcome.saves->committed == 1);
  CHECK(outcome.saves->last.ends_with("step-00000006_epoch-0"));
  CHECK(last_step_of(rig.run_dir().string()) == 6);
}

TEST_CASE("two runs of one recipe end with the same parameters", "[train]") {
  RunRig first;
  RunRig second(R"({"checkpoint": {"every_steps": 2}})");
  RunRig third(R"({"seed": 7})");
  const std::string hash = run_of(first).parameters_hash;
  CHECK(run_of(second).parameters_hash == hash);
  CHECK(run_of(third).parameters_hash != hash);
}

TEST_CASE("without a checkpoint section's consent nothing is saved, and the step is known",
          "[train]") {
  RunRig rig("{}", {}, {"checkpoint=null"});
  const Outcome outcome = run_of(rig);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK_FALSE(outcome.saves.has_value());
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "checkpoints"));
  CHECK(last_step_of(rig.run_dir().string()) == 6);
}

TEST_CASE("a run that only evaluates neither saves nor records a step", "[train]") {
  RunRequest request;
  request.is_eval_only = true;
  RunRig rig(R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}}})", request);
  const Outcome outcome = run_of(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(outcome.last_metrics.contains("eval/loss"));
  CHECK(outcome.state.step == 0);
  CHECK_FALSE(std::filesystem::exists(rig.run_dir() / "checkpoints"));
  CHECK_FALSE(last_step_of(rig.run_dir().string()).has_value());
}

TEST_CASE("a run keeps the best evaluation, and exports what it ends with", "[train]") {
  RunRig rig(R"({"data": {"eval": {"type": "windows", "options": {"samples": 9}}},
    "eval": {"every_steps": 2, "keep_best": {"metric": "eval/loss", "mode": "min"}},
    "checkpoint": {"exports": [{"format": "weights", "at_end": true}]}})");
  const Outcome outcome = run_of(rig);
  INFO(outcome.reason);
  CHECK(outcome.code == ExitCode::kDone);
  REQUIRE(outcome.best.has_value());
  REQUIRE(outcome.exports.has_value());
  CHECK(outcome.exports->committed == 1);
}

}  // namespace tenon
