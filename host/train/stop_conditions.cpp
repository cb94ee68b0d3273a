// SPDX-License-Identifier: Apache-2.0
#include "host/train/stop_conditions.hpp"

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/train/rank_decisions.hpp"

#include <cstdio>
#include <optional>
#include <unistd.h>
#include <utility>

namespace tenon {

StopConditions::StopConditions(const TrainRecipe& train,
                               const RunState& state,
                               Group& ranks,
                               const SignalWatch* signals)
    : train_(train), state_(state), ranks_(ranks), signals_(signals) {}

void StopConditions::end(ExitCode code, std::string reason) {
  if (!is_over_) {
    is_over_ = true;
    code_ = code;
    reason_ = std::move(reason);
  }
}

double StopConditions::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool StopConditions::is_time_up() const {
  return train_.minutes.has_value() && seconds() >= *train_.minutes * 60;
}

void StopConditions::check_run_length() {
  const auto reached = [](const std::optional<int64_t>& limit, uint64_t value) {
    return limit.has_value() && value >= static_cast<uint64_t>(*limit);
  };
  const auto end_after = [&](uint64_t n, const char* unit) {
    is_over_by_length_ = is_over_by_length_ || !is_over_;
    end(ExitCode::kDone, "reached " + counted(n, unit));
  };
  if (reached(train_.steps, state_.step)) {
    end_after(state_.step, "step");
  } else if (reached(train_.num_windows(), state_.windows)) {
    end_after(state_.windows, "window");
  } else if (train_.tokens.has_value() && state_.tokens >= *train_.tokens) {
    end_after(static_cast<uint64_t>(state_.tokens), "token");
  } else if (reached(train_.epochs, state_.epochs)) {
    end_after(state_.epochs, "epoch");
  } else if (state_.step > first_step_ && reached(train_.exit_at_step, state_.step)) {
    end(ExitCode::kStopped, formatted("exit_at_step {}", *train_.exit_at_step));
  } else if (reached(train_.exit_after_steps, state_.step - first_step_)) {
    end(ExitCode::kStopped, formatted("exit_after_steps {}", *train_.exit_after_steps));
  }
}

void StopConditions::end_if_complete(bool has_same_end, std::optional<uint64_t> finished_step) {
  check_run_length();
  // Earlier releases saved the reason of a hook only.
  const std::string ended = first_text(ranks_, saved_end_.value_or(stop_reason_));
  if (has_same_end && !ended.empty()) {
    is_over_by_hook_ = !is_over_;
    end(ExitCode::kDone, ended);
  } else if (!ended.empty()) {
    stop_reason_.clear();
  }
  saved_end_.reset();
  if (!is_over_ && train_.exit_at_step.has_value() &&
      state_.step >= static_cast<uint64_t>(*train_.exit_at_step)) {
    finished_step = state_.step;  // its end, with evaluations and exports, is still to come
    end(ExitCode::kDone,
        formatted("exit_at_step {}; raise or remove train.exit_at_step to train on",
                  *train_.exit_at_step));
  }
  if (!is_over_ && any_rank(ranks_, is_time_up())) {
    end_in_time();
  }
  complete_ = !is_over_                      ? Complete::kNo
              : finished_step == state_.step ? Complete::kFinished
                                             : Complete::kTrained;
}

void StopConditions::withdraw_run_length() {
  is_over_ = is_over_ && !std::exchange(is_over_by_length_, false);
}

// Without this check, the run would never end.
void StopConditions::check_tokens(const std::string& dataset) const {
  if (train_.tokens.has_value() && state_.tokens == 0) {
    throw Error(
        "data.no_tokens",
        formatted(
            "/train/tokens ends the run after {} tokens, but the first step had none: {} does "
            "not count tokens; give the run length in steps or epochs",
            *train_.tokens,
            dataset));
  }
}

int StopConditions::signal_received() const {
  return signals_ != nullptr ? signals_->received() : 0;
}

bool StopConditions::is_interrupted() const {
  return signal_received() != 0 ||
         (!train_.kill_switch.empty() && access(train_.kill_switch.c_str(), F_OK) == 0);
}

std::string StopConditions::own_interruption() const {
  if (const int signal = signal_received(); signal != 0) {
    return std::string("received ") + SignalWatch::name(signal);
  }
  return is_interrupted() ? "the kill switch " + train_.kill_switch + " exists" : "";
}

void StopConditions::end_on_early_signal() {
  if (!is_over_ && any_rank(ranks_, signal_received() != 0)) {
    is_interrupted_run_ = true;
    end(ExitCode::kStopped, first_text(ranks_, own_interruption()));
  }
}

void StopConditions::vote(Agreement& agreement) const {
  if (is_interrupted()) {
    agreement.vote(Vote::kInterrupted);
  }
}

void StopConditions::act_on(const Decision& decision) {
  if (decision.has(Vote::kStop)) {
    const std::string reason = first_text(ranks_, stop_reason_);
    is_over_by_hook_ = is_over_by_hook_ || !is_over_;
    end(ExitCode::kDone, reason.empty() ? "a hook asked to stop" : reason);
  }
  // A single rank needs no vote: a signal during the step ends the run at the end of the step.
  if (decision.has(Vote::kInterrupted) || (ranks_.size() == 1 && signal_received() != 0)) {
    is_interrupted_run_ = true;
    end(ExitCode::kStopped, first_text(ranks_, own_interruption()));
  }
}

// Clocks differ between ranks. If time was up on any rank's clock before the step's forward, it is
// up for all ranks. A single rank reads its clock again.
void StopConditions::check_clock(const Decision& decision) {
  const bool is_late = ranks_.size() == 1 && is_time_up();
  if (decision.has(Vote::kTimeIsUp) || is_late) {
    end_in_time();
  }
}

void StopConditions::end_in_time() {
  char text[48];
  std::snprintf(
      text, sizeof(text), "reached %g minute%s", *train_.minutes, *train_.minutes == 1 ? "" : "s");
  end(ExitCode::kDone, text);
}

void StopConditions::end_waiting() {
  if (any_rank(ranks_, is_interrupted())) {
    is_interrupted_run_ = true;
    end(ExitCode::kStopped, first_text(ranks_, own_interruption()));
  } else {
    end_in_time();
  }
}

void StopConditions::end_without_new_window(const std::string& last) {
  const std::string so_far =
      last.empty() ? "no window yet" : "trained on all windows up to " + last;
  const bool has_nothing_new = state_.step == first_step_;
  if (!is_over_ && has_nothing_new) {
    complete_ = Complete::kNothingNew;
  }
  end(ExitCode::kDone, has_nothing_new ? "nothing new; " + so_far : so_far);
}

bool StopConditions::cuts_evaluation() {
  if (!any_rank(ranks_, is_interrupted())) {
    return false;
  }
  cut_evaluation();
  return true;
}

// An evaluation may take longer than the sender of a signal waits. An interrupted evaluation is
// incomplete, so even a run that had reached its end counts as stopped early.
void StopConditions::cut_evaluation() {
  std::string reason = first_text(ranks_, own_interruption());
  is_interrupted_run_ = true;
  if (!is_over_ || code_ == ExitCode::kDone) {
    is_over_ = true;
    code_ = ExitCode::kStopped;
    reason_ = std::move(reason);
  }
}

}  // namespace tenon
