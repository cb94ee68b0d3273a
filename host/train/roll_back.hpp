// SPDX-License-Identifier: Apache-2.0
//
// Rolling back: once the policy on non-finite updates or a hook says that training went wrong, the
// last good checkpoint is loaded in the middle of the run. What was learned since is forgotten. The
// position in the data is kept, so that the data that did it does not come again.
// Invariant: all ranks roll back together, at the end of a step.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/train/checkpoint_driver.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_state.hpp"
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
  struct Parts {
    const RunState& state;
    Collective& collective;
    ShardedParameters& flow;
    const FiniteCheck& finite_check;
    CheckpointDriver& checkpoints;
    WholeState& whole;
  };
  explicit RollBack(Parts parts) : parts_(parts) {}

  // Hooks have seen a loss spike: the run rolls back with this step.
  void note(std::optional<LossSpike> spike);
  bool is_due() const {
    return spike_.has_value() || parts_.finite_check.guard().failure().has_value();
  }

  // While updates stay non-finite, the last checkpoint taken before them is kept.
  void pin_good();
  // After a load: checkpoints that the run has rolled back to are kept.
  void pin_used();

  struct Result {
    std::string why;
    bool is_same_window = false;  // the window that was open then is the one that is open now
  };
  // If is_due(): loads the last good checkpoint.
  // Errors  train.non_finite, train.spike if the run cannot roll back
  Result run();

  // All of the run, oldest first.
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
  // What went wrong, and the error that ends the run if it cannot roll back.
  std::pair<LossSpike, Error> cause() const;
  std::vector<std::string> good_checkpoints(uint64_t first_bad_step);

  Parts parts_;
  std::optional<LossSpike> spike_;  // that ranks have agreed on
  std::vector<RollBackRecord> records_;
};

}  // namespace tenon
