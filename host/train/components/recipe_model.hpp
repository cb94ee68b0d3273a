// SPDX-License-Identifier: Apache-2.0
//
// The graph of a run's model: as its plugin describes it, with what the recipe says of it. Nothing
// is allocated.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"

namespace tenon {

class ModelProxy;

// Fields that "inputs" maps are read under the name that the datasets have for them; parameters
// whose names a pattern of "frozen" matches have the flag TENON_PARAM_FROZEN, and with a tied one
// all that are tied to it.
// Errors  as describe_model; model.unknown_input, model.unmatched_frozen: a mapping or a pattern
//         without effect
ModelGraph recipe_model(ModelProxy& model, const ModelUse& use);

}  // namespace tenon
