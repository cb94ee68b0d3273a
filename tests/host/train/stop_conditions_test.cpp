// SPDX-License-Identifier: Apache-2.0
#include "host/train/stop_conditions.hpp"

#include "host/error/error.hpp"

#include <array>
#include <csignal>
#include <fstream>

#include "tests/support/scratch_folder.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// A recipe that sets one limit.
TrainRecipe with(std::optional<int64_t> TrainRecipe::*limit, int64_t value) {
  TrainRecipe train;
  train.*limit = value;
  return train;
}

// What ends a run of this length after `state`.
std::string reason(const TrainRecipe& train, const RunState& state) {
  LocalGroup alone;
  StopConditions stop(train, state, alone, nullptr);
  stop.check_run_length();
  return stop.is_over() ? stop.reason() : "";
}

Decision decided(Vote vote) {
  Decision decision;
  decision.set(vote);
  return decision;
}

}  // namespace

TEST_CASE("the run ends at its length, in whatever unit the recipe gives it", "[train]") {
  CHECK(reason(with(&TrainRecipe::steps, 3), {.step = 2}).empty());
  CHECK(reason(with(&TrainRecipe::steps, 3), {.step = 3}) == "reached 3 steps");
  TrainRecipe one_window;
  one_window.windows = 1;
  CHECK(reason(one_window, {.windows = 1}) == "reached 1 window");
  CHECK(reason(with(&TrainRecipe::tokens, 100), {.tokens = 120}) == "reached 120 tokens");
  CHECK(reason(with(&TrainRecipe::epochs, 2), {.epochs = 2}) == "reached 2 epochs");
  CHECK(reason(with(&TrainRecipe::exit_at_step, 5), {.step = 5}) == "exit_at_step 5");
  CHECK(reason(with(&TrainRecipe::exit_after_steps, 2), {.step = 2}) == "exit_after_steps 2");
}

TEST_CASE("a run on new windows ends when there is none, and says whether it had one", "[train]") {
  LocalGroup alone;
  TrainRecipe train;
  train.windows = "new";
  RunState state = {.step = 5, .windows = 7};
  const auto reason_after = [&](uint64_t first_step, const std::string& last) {
    StopConditions stop(train, state, alone, nullptr);
    stop.start_after(first_step);
    stop.check_run_length();
    CHECK_FALSE(stop.is_over());
    CHECK(stop.complete() == StopConditions::Complete::kNo);
    stop.end_without_new_window(last);
    CHECK(stop.code() == ExitCode::kDone);
    CHECK((stop.complete() == StopConditions::Complete::kNothingNew) == (state.step == first_step));
    return stop.reason();
  };
  CHECK(reason_after(3, "tue") == "trained on all windows up to tue");
  CHECK(reason_after(5, "tue") == "nothing new; trained on all windows up to tue");
  state.step = 0;
  CHECK(reason_after(0, "") == "nothing new; no window yet");
}

TEST_CASE("steps to exit at are counted from the resumed step", "[train]") {
  LocalGroup alone;
  TrainRecipe train = with(&TrainRecipe::exit_at_step, 5);
  train.exit_after_steps = 3;
  RunState state = {.step = 5};
  StopConditions stop(train, state, alone, nullptr);
  stop.start_after(5);
  stop.check_run_length();
  CHECK_FALSE(stop.is_over());  // it exited there before
  state.step = 8;
  stop.check_run_length();
  CHECK(stop.code() == ExitCode::kStopped);
}

TEST_CASE("the first reason counts, and a run length can be withdrawn", "[train]") {
  LocalGroup alone;
  const TrainRecipe train = with(&TrainRecipe::steps, 3);
  RunState state = {.step = 3};
  StopConditions stop(train, state, alone, nullptr);
  stop.check_run_length();
  stop.end(ExitCode::kStopped, "later");
  CHECK(stop.reason() == "reached 3 steps");
  CHECK(stop.code() == ExitCode::kDone);
  stop.withdraw_run_length();
  CHECK_FALSE(stop.is_over());
  stop.end(ExitCode::kDone, "a hook");
  stop.check_run_length();
  stop.withdraw_run_length();  // what has ended the run is the hook
  CHECK(stop.is_over());
  CHECK(stop.reason() == "a hook");
}

TEST_CASE("tokens end a run only if the data counts them", "[train]") {
  LocalGroup alone;
  const TrainRecipe train = with(&TrainRecipe::tokens, 100);
  RunState state;
  const StopConditions stop(train, state, alone, nullptr);
  CHECK_THROWS_AS(stop.check_tokens("dataset \"x\""), Error);
  state.tokens = 1;
  CHECK_NOTHROW(stop.check_tokens("dataset \"x\""));
}

TEST_CASE("the clock goes on in a resumed run, and ends it", "[train]") {
  LocalGroup alone;
  TrainRecipe train;
  train.minutes = 1;
  const RunState state;
  StopConditions stop(train, state, alone, nullptr);
  CHECK_FALSE(stop.is_time_up());
  stop.check_clock({});
  CHECK_FALSE(stop.is_over());
  StateTree tree;
  tree.put_double("run/seconds", 61, TENON_STATE_PER_RANK);
  tree.put_bytes("run/stop_reason", "", TENON_STATE_PER_RANK);
  stop.get_fields(tree, "run");
  CHECK(stop.seconds() >= 61);
  CHECK(stop.is_time_up());
  stop.check_clock({});
  CHECK(stop.reason() == "reached 1 minute");
  StateTree later;
  stop.put_fields(later, "run");
  CHECK(later.get_double("run/seconds") >= 61);
}

TEST_CASE("a signal stops the run early, and cuts an evaluation after its end", "[train]") {
  LocalGroup alone;
  const TrainRecipe train = with(&TrainRecipe::steps, 3);
  const RunState state = {.step = 3};
  const SignalWatch signals;
  StopConditions stop(train, state, alone, &signals);
  CHECK_FALSE(stop.is_interrupted());
  CHECK_FALSE(stop.cuts_evaluation());
  stop.check_run_length();
  raise(SIGTERM);
  CHECK(stop.is_interrupted());
  stop.act_on({});
  CHECK(stop.reason() == "reached 3 steps");  // it is over already
  CHECK(stop.is_interrupted_run());
  CHECK(stop.cuts_evaluation());
  CHECK(stop.code() == ExitCode::kStopped);
  CHECK(stop.reason() == "received SIGTERM");
}

TEST_CASE("a signal before the first step ends the run, unless it has ended", "[train]") {
  LocalGroup alone;
  const TrainRecipe train = with(&TrainRecipe::steps, 3);
  RunState state;
  const SignalWatch signals;
  StopConditions stop(train, state, alone, &signals);
  stop.end_on_early_signal();
  CHECK_FALSE(stop.is_over());
  raise(SIGINT);
  stop.end_on_early_signal();
  CHECK(stop.code() == ExitCode::kStopped);
  CHECK(stop.reason() == "received SIGINT");
  CHECK(stop.is_interrupted_run());

  state.step = 3;
  StopConditions resumed(train, state, alone, &signals);
  resumed.check_run_length();
  resumed.end_on_early_signal();
  CHECK(resumed.code() == ExitCode::kDone);
  CHECK_FALSE(resumed.is_interrupted_run());
}

TEST_CASE("the kill switch is a file", "[train]") {
  const ScratchFolder folder;
  LocalGroup alone;
  const std::string file = (folder.path() / "stop").string();
  TrainRecipe train;
  train.kill_switch = file;
  const RunState state;
  StopConditions stop(train, state, alone, nullptr);
  CHECK_FALSE(stop.is_interrupted());
  std::ofstream(file) << "x";
  CHECK(stop.is_interrupted());
  stop.end_waiting();
  CHECK(stop.reason() == "the kill switch " + file + " exists");
}

TEST_CASE("a hook of one rank stops all, with its reason", "[train]") {
  std::array<std::string, 2> reasons;
  std::array<std::string, 2> without;
  run_ranks(2, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const TrainRecipe train;
    const RunState state;
    StopConditions stop(train, state, control, nullptr);
    if (control.rank() == 1) {
      stop.note_stop_request("loss is flat");
    }
    stop.act_on(decided(Vote::kStop));
    reasons[control.rank()] = stop.reason();
    StopConditions other(train, state, control, nullptr);
    other.act_on(decided(Vote::kStop));
    without[control.rank()] = other.reason();
  });
  CHECK(reasons[0] == "rank 1: loss is flat");
  CHECK(reasons[1] == reasons[0]);
  CHECK(without[0] == "a hook asked to stop");
}

TEST_CASE("a resumed run is complete if nothing is left to train", "[train]") {
  using Complete = StopConditions::Complete;
  LocalGroup alone;
  TrainRecipe train = with(&TrainRecipe::steps, 9);
  RunState state = {.step = 4};
  StopConditions ended(train, state, alone, nullptr);
  Decision decision;
  decision.set(Vote::kStop);
  ended.note_stop_request("early_stop: enough");
  ended.act_on(decision);
  StateTree tree;
  ended.put_fields(tree, "run");
  CHECK(tree.get_bytes("run/ended") == "early_stop: enough");

  StopConditions same(train, state, alone, nullptr);
  same.get_fields(tree, "run");
  same.end_if_complete(/*has_same_end=*/true, std::nullopt);
  CHECK(same.complete() == Complete::kTrained);
  CHECK(same.code() == ExitCode::kDone);
  CHECK(same.reason() == "early_stop: enough");
  StateTree again;
  same.put_fields(again, "run");
  CHECK(again.get_bytes("run/ended") == "early_stop: enough");

  StopConditions changed(train, state, alone, nullptr);
  changed.get_fields(tree, "run");
  changed.end_if_complete(/*has_same_end=*/false, std::nullopt);
  CHECK(changed.complete() == Complete::kNo);
  CHECK_FALSE(changed.is_over());

  // Earlier releases saved the hook's reason only.
  StateTree old;
  old.put_double("run/seconds", 1, TENON_STATE_PER_RANK);
  old.put_bytes("run/stop_reason", "early_stop: enough", TENON_STATE_PER_RANK);
  StopConditions of_old(train, state, alone, nullptr);
  of_old.get_fields(old, "run");
  of_old.end_if_complete(true, 4);
  CHECK(of_old.complete() == Complete::kFinished);

  state.step = 9;
  StopConditions at_length(train, state, alone, nullptr);
  at_length.end_if_complete(false, 8);
  CHECK(at_length.complete() == Complete::kTrained);
  CHECK(at_length.reason() == "reached 9 steps");

  train.exit_at_step = 5;
  for (const uint64_t step : {5, 6}) {
    state.step = step;
    StopConditions at_exit(train, state, alone, nullptr);
    at_exit.start_after(step);
    at_exit.end_if_complete(true, std::nullopt);
    CHECK(at_exit.complete() == Complete::kFinished);
    CHECK(at_exit.code() == ExitCode::kDone);
  }
}

}  // namespace tenon
