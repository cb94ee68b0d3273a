// SPDX-License-Identifier: Apache-2.0
//
// The files of a recipe's tokenizer, for exports.
// Threads: [main].
#pragma once

#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/weights/layout_map.hpp"

namespace tenon {

// Adds the files of the tokenizer that the training data uses to those of a layout, with the chat
// template of the training data. Sets the ids of special tokens in config.json, and adds a
// generation_config.json with the tokens that end a text, so that other programs stop there. Adds
// nothing if the recipe has no tokenizer. If it cannot be created, such as
// after its own files have moved, logs a warning: weights can be exported without it.
//
// Errors   plugin.bad_result for a name that the layout has already; PluginError
void add_tokenizer_files(const Recipe& recipe, ComponentFactory& factory, LayoutMap& map);

}  // namespace tenon
