// SPDX-License-Identifier: Apache-2.0
//
// Where the loop goes back: once the policy on updates that are not finite, or a hook, says that
// the run went wrong, the last good checkpoint is taken up in the middle of the run. What was
// learned since is forgotten; where the run is in its data is not, so that what did it does not
// come again.
// Invariant: all ranks go back together, at the end of a step.
#include "host/log/log.hpp"
#include "host/train/checkpointing.hpp"
#include "host/train/run_snapshot.hpp"
#include "host/train/trainer.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

using namespace run_state;

// An epoch that the run has gone back in had data, however few steps are left of it.
constexpr uint64_t kNoStep = std::numeric_limits<uint64_t>::max();

// Of the loop: where it is in the data, how long it has taken, and how often it has gone back.
bool stays(std::string_view name) {
  constexpr std::string_view kStay[] = {"run/epochs",
                                        "run/windows",
                                        "run/steps_in_window",
                                        "run/windows_skipped",
                                        "run/windows_repeated",
                                        "run/windows_empty",
                                        "run/last_window",
                                        "run/has_told_skip_list",
                                        "run/seconds"};
  return std::ranges::find(kStay, name) != std::end(kStay) ||
         name.starts_with("run/first_batch/") || name.starts_with("run/roll_backs/");
}

// False for components that make batches, on other threads at that, or keep checkpoints.
bool goes_back(std::string_view role) {
  constexpr std::string_view kStay[] = {
      "data/", "features:", "storage/", "nested/data/", "nested/features/", "nested/checkpoint/"};
  return std::ranges::none_of(kStay, [&](std::string_view of) { return role.starts_with(of); });
}

// True if the window that was open is the one that is open now, or the windows are over by now.
bool is_in_window_of(const StateTree& tree, const RunState& now) {
  const auto get = [&](const char* name) { return static_cast<uint64_t>(tree.get_int(name)); };
  const std::string has_window = state_path(kTrainData, "has_window");
  return tree.find(has_window) != nullptr && tree.get_int(has_window) != 0 &&
         get("run/epochs") == now.epochs && get("run/windows") == now.windows;
}

}  // namespace

void Trainer::roll_back(uint64_t first_bad_step, const std::string& reason) {
  if (parts_.checkpoints == nullptr ||
      parts_.checkpoints->recipe().on_spike != OnSpike::kRollBack) {
    throw Error("hook.bad_wish",
                "the recipe does not let the run go back to a checkpoint; say so with "
                "\"on_spike\": \"roll_back\" in /checkpoint");
  }
  if (first_bad_step == 0 || first_bad_step > state_.step) {
    throw Error("hook.bad_wish",
                "the run cannot go back to before step " + std::to_string(first_bad_step) +
                    ", since it is at step " + std::to_string(state_.step));
  }
  if (!own_spike_.has_value() || first_bad_step < own_spike_->first_bad_step) {
    own_spike_ = Spike{first_bad_step, reason};
  }
  agreement_.vote(Vote::kRollBack);
}

// What hooks of all ranks have seen becomes the earliest of it.
void Trainer::hear_spikes(const Decision& decision) {
  if (!decision.has(Vote::kRollBack)) {
    return;
  }
  const std::optional<Spike> mine = std::exchange(own_spike_, std::nullopt);
  const auto all = parts_.collective.gather_texts(
      mine.has_value() ? std::to_string(mine->first_bad_step) + " " + mine->why : "",
      "reason to go back");
  for (const std::string& text : all) {
    if (text.empty()) {
      continue;
    }
    const uint64_t step = std::strtoull(text.c_str(), nullptr, 10);
    if (!spike_.has_value() || step < spike_->first_bad_step) {
      const std::string why = text.substr(text.find(' ') + 1);
      spike_ = Spike{step, why.empty() ? "a hook asked for it" : why};
    }
  }
}

// Until the row of updates that are not finite is over, the last checkpoint of before it stays.
void Trainer::pin_good_one() {
  if (parts_.checkpoints != nullptr) {
    parts_.checkpoints->keeper().pin_before(guard_.row_begin());
  }
}

void Trainer::go_back() {
  Spike spike = spike_.value_or(Spike{kNoStep, ""});
  std::optional<Error> error = guard_.failure();
  if (error.has_value()) {
    spike = {std::min(spike.first_bad_step, *guard_.row_begin()),
             "the update of step " + std::to_string(guard_.count().last_step) +
                 " is not finite: " + guard_.count().last_origin};
  } else {
    error.emplace("train.spike", spike.why);
  }
  if (parts_.checkpoints == nullptr ||
      parts_.checkpoints->recipe().on_spike != OnSpike::kRollBack) {
    throw Error(*error);
  }
  Checkpointing& checkpoints = *parts_.checkpoints;
  const auto refuse = [&](const std::string& why) {
    throw Error(error->id(), error->message() + "; the run cannot go back: " + why);
  };
  const auto most = static_cast<size_t>(checkpoints.recipe().max_roll_backs);
  if (outcome_.roll_backs.size() >= most) {
    refuse("it has done so " + std::to_string(most) + (most == 1 ? " time" : " times") +
           ", and /checkpoint/max_roll_backs allows no more");
  }
  finish_saves();
  std::vector<std::string> good;
  if (parts_.collective.rank() == 0) {
    try {
      good = checkpoints.keeper().taken_before(spike.first_bad_step);
    } catch (const Error& failure) {
      log_warning(failure.what());
    }
  }
  SavedStates saved(checkpoints.storage(), parts_.collective, std::move(good));
  if (saved.is_empty()) {
    refuse("there is no checkpoint of before step " + std::to_string(spike.first_bad_step));
  }

  const uint64_t step = state_.step;
  const uint64_t first_step = first_step_;
  const RunState at = state_;
  StateTree now;
  snapshot_loop(now);
  parts_.flow.settle();
  bool is_same_window = false;
  try {
    load_sound(saved, [&](const StateTree& tree) {
      is_same_window = is_in_window_of(tree, at);
      load_back(tree, now);
    });
  } catch (const Error& failure) {
    if (failure.id() != "checkpoint.none_sound") {
      throw;
    }
    refuse(failure.message());
  }
  parts_.flow.publish();
  parts_.sinks.resume(state_.step, records_of_step_);
  const std::string bundle = saved.reader().bundle();
  outcome_.roll_backs.push_back(
      {.step = step, .to = state_.step, .bundle = bundle, .why = spike.why});
  checkpoints.keeper().pin(bundle);
  pin_good_one();
  checkpoints.forget_saved(state_);
  if (parts_.collective.rank() == 0) {
    log_warning("step " + std::to_string(step) + ": " + spike.why + "; the run goes back to " +
                saved.reader().address() + ", after step " + std::to_string(state_.step) +
                ", and leaves out the data since (" + std::to_string(outcome_.roll_backs.size()) +
                " of " + std::to_string(most) + " times)");
  }

  spike_.reset();
  agreement_.forget();
  vote_loaded_wishes();
  first_step_ = std::min(first_step, state_.step);
  epoch_step_ = kNoStep;
  due_.next_window = false;  // of windows that are over
  due_.with_window = false;
  num_cut_records_ = 0;
  logged_at_ = std::chrono::steady_clock::now();
  paused_seconds_ = 0;
  data_wait_ = {};
  if (parts_.train_data.has_window() && !is_same_window) {
    parts_.metric_set.begin_window(CallPlace{state_.step, 0, true});
  }
  parts_.published.set(state_);
  tenon_event& event = hooks_.event();
  event.step = state_.step;
  event.message = spike.why.c_str();
  fire(TENON_EVENT_AFTER_LOAD);
  event.message = "";
  settle_wishes();
  if (due_.all) {
    evaluate();
  }
  save_checkpoint(RestPoint::kStep);  // else a run that is lost now would meet the same data again
}

void Trainer::load_back(const StateTree& tree, const StateTree& now) {
  StateTree loop;
  const std::string below = std::string(kRun) + "/";
  for (const StateTree* const from : {&tree, &now}) {
    for (const auto& [name, entry] : from->entries()) {
      if (name.starts_with(below) && stays(name) == (from == &now)) {
        loop.put_entry(name, entry);
      }
    }
  }
  load_learned(
      tree, [&](const std::string& role) { return goes_back(role) ? saved_role(tree, role) : ""; });
  load_loop(loop);
}

void Trainer::snapshot_roll_backs(StateTree& tree) const {
  const auto at = [](const std::string& name) { return state_path(kRun, name); };
  if (own_spike_.has_value()) {
    tree.put_int(
        at("spike/step"), static_cast<int64_t>(own_spike_->first_bad_step), TENON_STATE_PER_RANK);
    tree.put_bytes(at("spike/why"), own_spike_->why, TENON_STATE_PER_RANK);
  }
  for (size_t i = 0; i < outcome_.roll_backs.size(); ++i) {
    const RollBack& back = outcome_.roll_backs[i];
    const std::string of = at("roll_backs/" + std::to_string(i));
    tree.put_int(state_path(of, "step"), static_cast<int64_t>(back.step));
    tree.put_int(state_path(of, "to"), static_cast<int64_t>(back.to));
    tree.put_bytes(state_path(of, "bundle"), back.bundle);
    tree.put_bytes(state_path(of, "why"), back.why);
  }
}

void Trainer::load_roll_backs(const StateTree& tree) {
  const auto at = [](const std::string& name) { return state_path(kRun, name); };
  own_spike_.reset();
  const bool may_go_back =
      parts_.checkpoints != nullptr && parts_.checkpoints->recipe().on_spike == OnSpike::kRollBack;
  if (may_go_back && tree.find(at("spike/step")) != nullptr) {
    own_spike_ = Spike{static_cast<uint64_t>(tree.get_int(at("spike/step"))),
                       tree.get_bytes(at("spike/why"))};
  }
  outcome_.roll_backs.clear();
  for (size_t i = 0;; ++i) {
    const std::string of = at("roll_backs/" + std::to_string(i));
    if (!tree.has_subtree(of)) {
      return;
    }
    outcome_.roll_backs.push_back(
        {.step = static_cast<uint64_t>(tree.get_int(state_path(of, "step"))),
         .to = static_cast<uint64_t>(tree.get_int(state_path(of, "to"))),
         .bundle = tree.get_bytes(state_path(of, "bundle")),
         .why = tree.get_bytes(state_path(of, "why"))});
    if (parts_.checkpoints != nullptr) {
      parts_.checkpoints->keeper().pin(outcome_.roll_backs.back().bundle);
    }
  }
}

}  // namespace tenon
