// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_session.hpp"

#include "host/process/signal_watch.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

nlohmann::json summary_of(const RunRig& rig) {
  return nlohmann::json::parse(file_text(rig.run_dir() / "summary.json"));
}

}  // namespace

TEST_CASE("a session checks, trains, and leaves a folder with a summary", "[train]") {
  RunRig rig;
  RunSession session(
      rig.recipe(), rig.registry(), rig.process(), rig.request(), RunSession::Purpose::kTrain);
  session.check_with_all();
  const SignalWatch signals;
  CHECK_FALSE(std::filesystem::exists(rig.run_dir()));
  const Outcome outcome = session.train(signals);
  CHECK(outcome.code == ExitCode::kDone);
  CHECK(summary_of(rig)["steps"] == 6);
  CHECK(summary_of(rig)["outcome"] == "done");
  CHECK(summary_of(rig)["components"].size() == 5);
  CHECK(file_text(rig.run_dir() / "recipe.json") == frozen_recipe(rig.recipe()));
}

TEST_CASE("a check makes no folder", "[train]") {
  RunRig rig;
  RunSession session(
      rig.recipe(), rig.registry(), rig.process(), rig.request(), RunSession::Purpose::kCheck);
  session.check();
  CHECK_FALSE(std::filesystem::exists(rig.run_dir()));
}

TEST_CASE("an error in the loop becomes the outcome, with a summary", "[train]") {
  RunRig rig(R"({"hooks": [{"type": "fail_at", "options": {"event": "before_step", "step": 3}}]})");
  RunSession session(
      rig.recipe(), rig.registry(), rig.process(), rig.request(), RunSession::Purpose::kTrain);
  session.check_with_all();
  const SignalWatch signals;
  const Outcome outcome = session.train(signals);
  CHECK(outcome.code == ExitCode::kFailed);
  CHECK_FALSE(outcome.error_id.empty());
  CHECK(summary_of(rig)["outcome"] == "failed");
  CHECK(summary_of(rig)["steps"] == 3);
}

TEST_CASE("alone, a rank ends with its own error, which it has not reported", "[train]") {
  RunRig rig;
  RunSession session(
      rig.recipe(), rig.registry(), rig.process(), rig.request(), RunSession::Purpose::kTrain);
  const FailedEnd end = session.fail(Error("recipe.no_eval", "asked for by a test"));
  CHECK(end.error.id() == "recipe.no_eval");
  CHECK_FALSE(end.is_reported);
}

TEST_CASE("a run folder that is not empty is refused before training", "[train]") {
  RunRig rig;
  std::filesystem::create_directory(rig.run_dir());
  std::ofstream(rig.run_dir() / "notes.txt") << "mine";
  RunSession session(
      rig.recipe(), rig.registry(), rig.process(), rig.request(), RunSession::Purpose::kTrain);
  session.check_with_all();
  const SignalWatch signals;
  CHECK_THROWS_AS(session.train(signals), Error);
  CHECK(std::filesystem::exists(rig.run_dir() / "notes.txt"));
}

}  // namespace tenon
