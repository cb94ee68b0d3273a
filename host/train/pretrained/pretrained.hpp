// SPDX-License-Identifier: Apache-2.0
//
// What a run takes from others: the loads of its recipe, at the start and again where they are
// repeated. Each has its sources, of which the first is taken that is there and sound: every tensor
// that is to be read is verified against its checksum before anything of the run changes. When a
// load is due, and what follows from it in the loop, is the trainer's. Going on with this very run
// is ResumeCandidates'. Invariants: all ranks take the same; what a load does not name stays as it
// is. Threads: the train thread. All functions are for all ranks at once.
#pragma once

#include "host/distributed/collectives/collective.hpp"
#include "host/embedding/table_set.hpp"
#include "host/model/parameter_store.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/pretrained/load_plan.hpp"
#include "host/train/pretrained/load_source.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What loads change.
struct LoadTargets {
  ParameterStore& parameters;  // as they are stored: what blocks see of them is to be published
  OptimizerDriver& optimizer;
  TableSet* tables = nullptr;  // null if the model looks nothing up
  uint64_t step = 0;           // rows are as if updated in it
};

// One load that was made.
struct Load {
  std::string address;
  std::string text;                   // for people: what was taken, and what was not
  std::optional<StateTree> position;  // of the data, which is the trainer's to take over
};

// After what a load is repeated.
enum class ReloadPoint { kStep, kWindow, kEpoch };

class Pretrained {
 public:
  // All are borrowed.
  Pretrained(const std::vector<LoadRecipe>& loads,
             ComponentFactory& factory,
             LoadGoal goal,
             Collective& collective);

  // Opens the source of each load and holds it against the model, before anything is allocated.
  // Errors  load.no_source, load.mismatch, load.unmatched; of the model's plugin: weights.*
  void open();

  // All of them, one after the other, once; opens them where nobody has. Damage that is found now
  // has the next source tried.
  // Errors  as open(); load.mismatch if an optimizer keeps something else
  std::vector<Load> load_all(const LoadTargets& targets);

  // Those that are due after N steps, windows or epochs. One without a sound source is left
  // out, with a warning.
  // Errors  load.mismatch, load.unmatched
  std::vector<Load> reload(ReloadPoint point, uint64_t count, const LoadTargets& targets);

 private:
  // A load whose source is chosen.
  struct Opened {
    LoadSearch search;
    LoadedSource source = {};
    LoadPlan plan = {};
  };
  LoadSearch search(const LoadRecipe& load);
  // Goes on to the next source that is sound.
  void choose(const LoadRecipe& load, Opened& opened);
  Load make(const LoadRecipe& load, Opened& opened, const LoadTargets& targets);
  // What this rank does alone; says how many rows of tables it has taken.
  int64_t apply(const LoadRecipe& load, Opened& opened, const LoadTargets& targets);
  // Rows whose slots do not fit, or are not wanted, are taken without them.
  void resolve_slots(const LoadRecipe& load, Opened& opened, const LoadTargets& targets) const;
  StateTree with_parameters(const Opened& opened, ParameterStore& store) const;
  StateTree with_optimizer(const LoadRecipe& load,
                           Opened& opened,
                           const LoadTargets& targets) const;
  void verify(const Opened& opened) const;

  const std::vector<LoadRecipe>& loads_;
  ComponentFactory& factory_;
  const LoadGoal goal_;
  Collective& collective_;
  LoadStorages storages_;
  std::deque<Opened> opened_;  // by load
};

}  // namespace tenon
