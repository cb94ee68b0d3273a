// SPDX-License-Identifier: Apache-2.0
#include "host/train/roll_back.hpp"

#include "host/log/log.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_loader.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <algorithm>
#include <limits>

namespace tenon {
namespace {

using namespace run_state;

bool is_in_window_of(const StateTree& tree, const RunState& now) {
  const auto count = [&](const char* name) { return saved_count(tree, state_path(kRun, name)); };
  const std::string has_window = state_path(kTrainData, "has_window");
  return tree.find(has_window) != nullptr && tree.get_int(has_window) != 0 &&
         count("epochs") == now.epochs && count("windows") == now.windows;
}

}  // namespace

void RollBack::note(std::optional<LossSpike> spike) {
  if (spike.has_value()) {
    spike_ = std::move(spike);
  }
}

void RollBack::pin_good() {
  if (checkpoints_.is_on()) {
    checkpoints_.checkpoints().keeper().pin_before(finite_check_.guard().streak_begin());
  }
}

void RollBack::pin_used() {
  for (const RollBackRecord& record : records_) {
    if (checkpoints_.is_on()) {
      checkpoints_.checkpoints().keeper().pin(record.checkpoint);
    }
  }
}

std::pair<LossSpike, Error> RollBack::cause() const {
  const UpdateGuard& guard = finite_check_.guard();
  LossSpike spike = spike_.value_or(LossSpike{std::numeric_limits<uint64_t>::max(), ""});
  if (!guard.failure().has_value()) {
    return {spike, Error("train.spike", spike.why)};
  }
  const NonFiniteCount& count = guard.count();
  spike = {
      std::min(spike.first_bad_step, *guard.streak_begin()),
      formatted("the update of step {} is non-finite: {}", count.last_step, count.last_origin)};
  return {spike, *guard.failure()};
}

// Returns the checkpoints on rank 0, newest first; nothing on other ranks.
std::vector<std::string> RollBack::good_checkpoints(uint64_t first_bad_step) {
  if (!run_.role().is_first()) {
    return {};
  }
  try {
    return checkpoints_.checkpoints().keeper().taken_before(first_bad_step);
  } catch (const Error& failure) {
    log_warning(failure.what());
    return {};
  }
}

RollBack::Result RollBack::run() {
  const auto [spike, error] = cause();
  if (!checkpoints_.is_on() || checkpoints_.checkpoints().recipe().on_spike != OnSpike::kRollBack) {
    throw Error(error);
  }
  const auto refuse = [&error = error](const std::string& why) {
    throw Error(error.id(), error.message() + "; the run cannot go back: " + why);
  };
  Checkpointing& checkpoints = checkpoints_.checkpoints();
  const auto most = static_cast<size_t>(checkpoints.recipe().max_roll_backs);
  if (records_.size() >= most) {
    refuse(formatted("it has done so {}, and /checkpoint/max_roll_backs allows no more",
                     counted(most, "time")));
  }
  checkpoints_.finish();
  ResumeCandidates saved(
      checkpoints.storage(), run_.ranks.groups.all(), good_checkpoints(spike.first_bad_step));
  if (saved.is_empty()) {
    refuse(formatted("there is no checkpoint before step {}", spike.first_bad_step));
  }
  const RunState before = state_;
  run_.model.sharded.resolve();
  Result result{.why = spike.why};
  try {
    load_first_valid(saved, run_.ranks.groups.all(), [&](const StateTree& tree) {
      result.is_same_window = is_in_window_of(tree, before);
      whole_.roll_back(tree);
    });
  } catch (const Error& failure) {
    if (failure.id() != "checkpoint.none_sound" &&
        !checkpoint_failure(failure, CheckpointPart::kState).has_value()) {
      throw;
    }
    refuse(failure.message());
  }
  records_.push_back({.step = before.step,
                      .to = state_.step,
                      .checkpoint = saved.reader().checkpoint(),
                      .why = spike.why});
  result.taken = saved.reader().index().metadata.journal;
  checkpoints.keeper().pin(saved.reader().checkpoint());
  pin_good();
  checkpoints.forget_saved(state_);
  if (run_.role().is_first()) {
    log_warning(
        formatted("step {}: {}; rolling back to {}, after step {}, and skipping the data since ({} "
                  "of {} times)",
                  before.step,
                  spike.why,
                  saved.reader().address(),
                  state_.step,
                  records_.size(),
                  most));
  }
  spike_.reset();
  return result;
}

}  // namespace tenon
