// SPDX-License-Identifier: Apache-2.0
//
// Loads the state that a run starts from: a checkpoint of the same run, pretrained parts of other
// runs or files, or nothing. Also repeats loads of pretrained parts during the run. The caller
// updates the loop after a load.
// Invariant: all ranks load the same state.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/journal/run_state.hpp"
#include "host/metrics/progress.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/components/component_states.hpp"
#include "host/train/evaluation_values.hpp"
#include "host/train/parameter_averages.hpp"
#include "host/train/pretrained/pretrained.hpp"
#include "host/train/pretrained/saved_model.hpp"
#include "host/train/resume/resume_candidates.hpp"
#include "host/train/run_services.hpp"
#include "host/train/run_state/outcome.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Keys that decide when a run ends: its length and its hooks.
inline constexpr const char* kEndKeys[] = {
    "/train/steps", "/train/epochs", "/train/windows", "/train/tokens", "/train/minutes", "/hooks"};

// Keys that an evaluation depends on, besides the parameters: evaluation and test sets, losses and
// metrics.
inline constexpr const char* kEvaluationKeys[] = {"/data/eval",
                                                  "/data/test",
                                                  "/eval/batches",
                                                  "/features",
                                                  "/loss",
                                                  "/losses",
                                                  "/metrics",
                                                  "/model",
                                                  "/models"};

using TakeState = std::function<void(const StateTree& tree)>;

// Passes candidates to `take` until one is valid on all ranks.
// Errors  those of ResumeCandidates::next; errors of `take`, except those of a single checkpoint
void load_first_valid(ResumeCandidates& saved, Group& ranks, const TakeState& take);

class RunLoader {
 public:
  // Both are borrowed.
  RunLoader(RunServices& run, const RunState& state) : run_(run), state_(state) {}

  bool resumes() const {
    return run_.plan.request.start_from != nullptr || run_.data.saved != nullptr;
  }
  // Resumes from a state, which `take` loads. Requires resumes(). If the checkpoint excludes
  // entries, pretrained parts are loaded first, as at the start of a run; `take_position` then
  // loads the position in the data of another run.
  void resume(const TakeState& take, const TakeState& take_position);
  // Loads only the model of a checkpoint, to evaluate it, and publishes it: the state of training
  // may not fit the data and the losses of now. Returns the counts of the run at its step. Requires
  // resumes().
  // Errors  checkpoint.no_best; those of resume()
  RunState load_model(WhichParameters which);
  // What load_model() has loaded, for messages: "step 300 of PATH".
  const std::string& loaded_text() const { return loaded_text_; }
  // True if the recipe of the checkpoint that was loaded has the same values at these keys, and
  // below them. True if there is no checkpoint.
  bool has_same(std::span<const char* const> keys) const;
  // The address of the checkpoint that was loaded; "" if there is none.
  const std::string& resumed_from() const { return resumed_from_; }
  // The number of the journal that the checkpoint stores; none in checkpoints of earlier releases.
  std::optional<JournalNumber> resumed_journal() const {
    return run_.data.saved != nullptr ? run_.data.saved->reader().index().metadata.journal
                                      : std::nullopt;
  }
  // Returns the boundary at which the checkpoint was taken; "" if there is no checkpoint.
  std::string resumed_boundary() const;

  // Loads pretrained parts at the start. Returns false if the recipe has none.
  bool load_pretrained(const TakeState& take_position);
  // Repeats the loads that are due after `count` steps, windows or epochs. Returns false if nothing
  // was loaded.
  bool reload(ReloadPoint point, uint64_t count);

  void add_to(Outcome& outcome) const;

 private:
  void load_saved(const TakeState& take, const TakeState& take_position);
  RunState take_model(const SavedModel& model) const;
  LoadTargets targets() const;
  void report(const std::vector<Load>& loads);

  RunServices& run_;
  const RunState& state_;
  std::string loaded_text_;
  std::string resumed_from_;
  uint64_t resumed_at_ = 0;
  std::vector<std::string> loaded_from_;
  uint64_t num_reloads_ = 0;
};

}  // namespace tenon
