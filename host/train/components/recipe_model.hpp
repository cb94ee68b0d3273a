// SPDX-License-Identifier: Apache-2.0
//
// The graph of a run's model: the plugin's description with the recipe's input mapping and frozen
// parameters. Allocates nothing.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"

namespace tenon {

class ModelProxy;

// Returns the graph of a model. Fields that "inputs" maps have the names of the datasets' fields.
// Parameters that match a pattern of "frozen" have the flag TENON_PARAM_FROZEN. Freezing one of
// several tied parameters freezes all of them.
// Errors  as describe_model; model.unknown_input, model.unmatched_frozen: a mapping or a pattern
//         without effect
ModelGraph recipe_model(ModelProxy& model, const ModelUse& use);

}  // namespace tenon
