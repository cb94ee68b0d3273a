// SPDX-License-Identifier: Apache-2.0
//
// The files of a recipe's tokenizer, for exports.
// Threads: [main].
#pragma once

#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/weights/weight_places.hpp"

namespace tenon {

// Adds the files of the tokenizer that the training data uses to those of a layout. Adds nothing if
// the recipe has no tokenizer, or the tokenizer has no files. If it cannot be created, such as
// after its own files have moved, logs a warning: weights can be exported without it.
//
// Errors   plugin.bad_result for a name that the layout has already; PluginError
void add_tokenizer_files(const Recipe& recipe, ComponentFactory& factory, WeightPlaces& places);

}  // namespace tenon
