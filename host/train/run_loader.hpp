// SPDX-License-Identifier: Apache-2.0
//
// What a run starts from: a checkpoint of this very run, models that others have trained, or
// nothing; and models that are loaded again later on. What follows from it in the loop is the
// caller's.
// Invariant: all ranks load the same.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/embedding/table_set.hpp"
#include "host/metrics/progress.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/run_state.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon {

using TakeState = std::function<void(const StateTree& tree)>;

// Takes over the first state that is valid on all ranks.
// Errors  checkpoint.none_sound; what `take` throws, unless it says that the state is corrupt
void load_first_valid(ResumeCandidates& saved, Collective& collective, const TakeState& take);

class RunLoader {
 public:
  // All are borrowed.
  struct Parts {
    const StateTree* start_from = nullptr;  // a state in memory, or null
    ResumeCandidates* saved = nullptr;      // checkpoints of this run, or null
    Pretrained* bank = nullptr;             // models of others, or null
    const RunState& state;
    ParameterStore& parameters;
    ShardedParameters& flow;
    OptimizerDriver& optimizer;
    TableSet* tables = nullptr;
    Progress& progress;
    Collective& collective;
  };
  explicit RunLoader(Parts parts) : parts_(parts) {}

  bool resumes() const { return parts_.start_from != nullptr || parts_.saved != nullptr; }
  // If resumes(): `take` takes a state over, `take_position` the position in the data of another
  // run. Entries that the checkpoint is without are first loaded as at the start of the run.
  void resume(const TakeState& take, const TakeState& take_position);
  // The boundary at which the checkpoint was taken; "" if there is none.
  std::string resumed_boundary() const;

  // Models of others, at the start; false if the recipe names none.
  bool load_pretrained(const TakeState& take_position);
  // Those that are due again after so many steps, windows or epochs; false if none is.
  bool reload(ReloadPoint point, uint64_t count);

  void add_to(Outcome& outcome) const;

 private:
  LoadTargets targets() const;
  void report(const std::vector<Load>& loads);

  Parts parts_;
  std::string resumed_from_;
  uint64_t resumed_at_ = 0;
  std::vector<std::string> loaded_from_;
  uint64_t num_reloads_ = 0;
};

}  // namespace tenon
