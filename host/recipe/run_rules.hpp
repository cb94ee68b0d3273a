// SPDX-License-Identifier: Apache-2.0
//
// Rules across keys that also depend on the run: on its data, its device, its ranks or its
// components. Rules that follow from the recipe alone are in recipe_rules.hpp.
// Threads: every function may be called from any thread.
#pragma once

#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <string>

namespace tenon {

// What is known of a run. A run learns it step by step: with its initial value, a fact breaks no
// rule.
struct RunFacts {
  bool is_eval_only = false;

  std::string train_data = {};  // dataset of data.train, for messages
  bool train_has_windows = true;
  bool eval_has_windows = true;  // of one dataset of data.eval

  bool has_parametrizations = false;  // of the trained model or of others
  bool is_cpu = false;                // parameters are on the CPU
  bool can_keep_attention = true;     // the host's attention kernel computes in this precision

  std::int64_t microbatches_per_step = 1;
  std::int64_t num_ranks = 1;
  bool counts_ahead = true;  // losses are counted from the batch
  bool hook_writes_gradients = false;
  bool hook_sets_late_lr = false;     // between backward and the optimizer's step
  bool schedule_needs_total = false;  // the lr_scheduler needs the length of the run
};

// Rejects keys that the run contradicts.
//
// Errors   recipe.contradiction, recipe.no_eval or recipe.no_total, for the first rule that is
//          broken
void check_run_rules(const Recipe& recipe, const RunFacts& facts);

}  // namespace tenon
