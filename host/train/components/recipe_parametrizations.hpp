// SPDX-License-Identifier: Apache-2.0
//
// Creates the parametrizations of a recipe, one instance for each parameter that a pattern matches,
// and adds them to the graph of the model.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

namespace tenon {

// The first entry that matches a parameter applies. A pattern that matches a tied name applies to
// the parameter that it is tied to.
//
// Errors  parametrization.unmatched for a pattern without effect, with the nearest names;
//         parametrization.unsupported, with the parameter and the reason; as parametrize()
void add_parametrizations(ComponentFactory& factory, const ModelUse& use, ModelGraph& graph);

}  // namespace tenon
