// SPDX-License-Identifier: Apache-2.0
//
// Initializes a run from other runs or files: makes the loads of its recipe at the start, and
// repeats loads that have a schedule. Each load takes the first of its sources that exists and is
// valid. Every tensor to read is verified against its checksum, if the source has checksums,
// before the run changes. The trainer calls reload() at boundaries and handles the consequences of
// a load. Not for resuming this run (ResumeCandidates).
// Invariants: all ranks load the same; state that a load does not name stays unchanged.
// Threads: the train thread. All public functions are collective calls.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/embedding/table_set.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/parametrization_start.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/pretrained/load_plan.hpp"
#include "host/train/pretrained/load_source.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// The state of the run that loads change.
struct LoadTargets {
  ParameterStore& parameters;  // stored values; the caller publishes them to blocks
  OptimizerDriver& optimizer;
  TableSet* tables = nullptr;  // null if the model has no lookups
  uint64_t step = 0;           // step in which loaded rows count as updated
  // Starts parametrizations, as start_parametrizations(). Null if the model has none.
  std::function<void(const std::vector<uint32_t>& which, const UnstoredValue& unstored)> start = {};
};

// The result of one load.
struct Load {
  std::string address;
  std::string text;                   // for users: what was loaded, and what was not
  std::optional<StateTree> position;  // state with the data position, which the trainer restores
};

// The unit after which a load is repeated.
enum class ReloadPoint { kStep, kWindow, kEpoch };

class Pretrained {
 public:
  // Owner  `loads`, `factory` and `collective` are borrowed
  Pretrained(const std::vector<LoadRecipe>& loads,
             ComponentFactory& factory,
             LoadGoal goal,
             Group& ranks);

  // Opens the source of each load and checks it against the model, before anything is allocated.
  // Errors  load.no_source, load.mismatch, load.unmatched; of the model's plugin: weights.*
  void open();

  // Makes all loads once, in order. Opens the sources if open() was not called. If a source turns
  // out to be corrupt, tries the next source.
  // Errors  as open(); load.mismatch if an optimizer's state has other slots or shapes
  std::vector<Load> load_all(const LoadTargets& targets);

  // Makes the loads that are due after `count` steps, windows or epochs. Skips a load without a
  // valid source, with a warning.
  // Errors  load.mismatch, load.unmatched
  std::vector<Load> reload(ReloadPoint point, uint64_t count, const LoadTargets& targets);

 private:
  // A load with its chosen source.
  struct Opened {
    LoadSearch search;
    LoadedSource source = {};
    LoadPlan plan = {};
  };
  LoadSearch search(const LoadRecipe& load);
  // Chooses the next valid source.
  void choose(const LoadRecipe& load, Opened& opened);
  Load make(const LoadRecipe& load, Opened& opened, const LoadTargets& targets);
  // Applies the load to the state of this rank. Returns the number of table rows that it loaded.
  int64_t apply(const LoadRecipe& load, Opened& opened, const LoadTargets& targets);
  // Decides whether rows are loaded with their slots: not if slots are not requested or do not fit.
  // Errors  load.mismatch if slots do not fit and the load is strict
  void resolve_slots(const LoadRecipe& load, Opened& opened, const LoadTargets& targets) const;
  Weight weight_in_run(Weight weight) const;
  StateTree with_parameters(const Opened& opened, ParameterStore& store) const;
  struct TakenState;
  TakenState take_slots(const StateTree& own, Opened& opened) const;
  static void start_pieces(const FlatGroup& group,
                           const StateTree& own,
                           const Opened& opened,
                           TakenState& taken);
  // Compares the base of an adapter with that of this run, if the source names it.
  // Errors  load.mismatch
  void check_base(const LoadRecipe& load, const Opened& opened, ParameterStore& store) const;
  void start_parametrizations(const Opened& opened, const LoadTargets& targets) const;
  StateTree with_optimizer(const LoadRecipe& load,
                           Opened& opened,
                           const LoadTargets& targets) const;
  void verify(const Opened& opened) const;

  const std::vector<LoadRecipe>& loads_;
  ComponentFactory& factory_;
  const LoadGoal goal_;
  Group& ranks_;
  LoadStorages storages_;
  std::deque<Opened> opened_;  // by load
};

}  // namespace tenon
