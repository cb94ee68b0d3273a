// SPDX-License-Identifier: Apache-2.0
//
// Where the loop meets what others have trained: at the start of a run that begins anew, and again
// between steps, windows and epochs. A reload is due by the counts of the run alone, before what
// follows them begins; so a run that is stopped there and goes on loads what it would have.
#include "host/train/model_bank.hpp"
#include "host/train/trainer.hpp"

#include <utility>

namespace tenon {

bool Trainer::load_from_bank() {
  if (parts_.bank == nullptr) {
    return false;
  }
  std::vector<Load> loads = parts_.bank->load_all(load_targets());
  for (Load& load : loads) {
    if (load.position.has_value()) {
      load_position(*load.position);
    }
    outcome_.loaded_from.push_back(load.address);
  }
  tell_loads(loads);
  return true;
}

void Trainer::reload_where_due(ReloadPoint point, uint64_t count) {
  if (parts_.bank == nullptr) {
    return;
  }
  const std::vector<Load> loads = parts_.bank->reload(point, count, load_targets());
  if (loads.empty()) {
    return;
  }
  outcome_.num_reloads += loads.size();
  tell_loads(loads);
  fire(TENON_EVENT_AFTER_LOAD);
  settle_wishes();
}

LoadTargets Trainer::load_targets() {
  return {.parameters = parts_.parameters,
          .optimizer = parts_.optimizer,
          .tables = parts_.tables,
          .step = state_.step};
}

// What blocks see follows what was loaded.
void Trainer::tell_loads(const std::vector<Load>& loads) {
  parts_.flow.publish();
  for (const Load& load : loads) {
    parts_.progress.say("loaded " + load.text + "; from " + load.address);
  }
}

}  // namespace tenon
