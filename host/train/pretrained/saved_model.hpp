// SPDX-License-Identifier: Apache-2.0
//
// The parameters and table rows that are the model of a checkpoint. With eval.keep_best, a
// checkpoint has those of the last step, which a resumed run trains on, and those of the best
// evaluation so far. Every reader of a model, such as exports, loads, generation and --eval-only,
// asks here which of them to read.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

// The best evaluation that a checkpoint keeps.
struct SavedBest {
  uint64_t step = 0;
  double value = 0;
  std::string metric = {};  // "" in checkpoints of earlier releases
};

struct SavedModel {
  // The state of a checkpoint, with the chosen values as its parameters and tables.
  StateTree state;
  uint64_t step = 0;  // of the chosen values
  // Set if the values are those of the best evaluation. They are values of evaluation: averages,
  // for example, are applied already.
  std::optional<SavedBest> best = {};
  // Where the values come from: "step 300 of PATH", or "step 230 of PATH, the best evaluation
  // (eval/loss 0.0318); --which last is step 300".
  std::string text;
};

// Returns the model in `state`, which is the state of the checkpoint for some rank.
// Errors  checkpoint.no_best if the best parameters are requested and none are kept;
//         state.missing_entry, state.wrong_type for a corrupt state
SavedModel saved_model(const CheckpointReader& reader,
                       StateTree state,
                       WhichParameters which = WhichParameters::kAuto);

}  // namespace tenon
