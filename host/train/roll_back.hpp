// SPDX-License-Identifier: Apache-2.0
//
// Rolls a run back: if the policy on non-finite updates or a hook reports that training went wrong,
// loads the last good checkpoint and continues. Training since that checkpoint is lost. The
// position in the data is kept, so the data since the checkpoint is skipped.
// Invariant: all ranks roll back together, at the end of a step.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/journal/run_state.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/train/checkpoint_driver.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/whole_state.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class RollBack final : public WithStateFields<RollBack> {
 public:
  // All are borrowed.
  RollBack(RunServices& run,
           const RunState& state,
           const FiniteCheck& finite_check,
           CheckpointDriver& checkpoints,
           WholeState& whole)
      : run_(run),
        state_(state),
        finite_check_(finite_check),
        checkpoints_(checkpoints),
        whole_(whole) {}

  // Records a loss spike that hooks reported, if any: the run rolls back at the end of this step.
  void note(std::optional<LossSpike> spike);
  bool is_due() const { return spike_.has_value() || finite_check_.guard().failure().has_value(); }

  // While updates stay non-finite, keeps the last checkpoint taken before them.
  void pin_good();
  // Called after a load. Keeps the checkpoints that the run has rolled back to.
  void pin_used();

  struct Result {
    std::string why;
    bool is_same_window = false;  // the checkpoint was taken in the window that is open now
    std::optional<JournalNumber> taken = {};  // that the checkpoint stores
  };
  // Loads the last good checkpoint. Requires is_due().
  // Errors  train.non_finite, train.spike if the run cannot roll back
  Result run();

  // All rollbacks of the run, oldest first.
  const std::vector<RollBackRecord>& records() const { return records_; }

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.list(
        "roll_backs",
        self.records_,
        [](auto& fields, auto& record) {
          fields.field("step", record.step);
          fields.field("to", record.to);
          fields.field("bundle", record.checkpoint);
          fields.field("why", record.why);
        },
        kKeptOnRollBack);
  }

 private:
  // Returns what went wrong, and the error that ends the run if it cannot roll back.
  std::pair<LossSpike, Error> cause() const;
  std::vector<std::string> good_checkpoints(uint64_t first_bad_step);

  RunServices& run_;
  const RunState& state_;
  const FiniteCheck& finite_check_;
  CheckpointDriver& checkpoints_;
  WholeState& whole_;
  std::optional<LossSpike> spike_;  // agreed on by all ranks
  std::vector<RollBackRecord> records_;
};

}  // namespace tenon
