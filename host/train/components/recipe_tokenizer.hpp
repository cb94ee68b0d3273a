// SPDX-License-Identifier: Apache-2.0
//
// The tokenizer of a recipe, for text that the host itself converts.
// Threads: any.
#pragma once

#include "host/plugin/tokenizer_proxy.hpp"
#include "host/recipe/recipe.hpp"

#include <string>

namespace tenon {

// Returns the tokenizer in the options of the training data, or else that of another component;
// null if no component has one.
//
// Owner    the recipe
const ComponentUse* find_tokenizer(const Recipe& recipe);

// Returns the same tokenizer.
//
// Errors   generate.no_tokenizer if no component has one
// Owner    the recipe
const ComponentUse& required_tokenizer(const Recipe& recipe);

// Returns the text of the chat template that the training data uses in place of the tokenizer's:
// the file `template`, or, if the tokenizer has none, `tagged_template`, which has the text of the
// tokenizer's otherwise. "" if the data names none. If the file cannot be read any more, logs a
// warning and returns "".
//
// Errors   PluginError
std::string trained_chat_template(const Recipe& recipe, const TokenizerProxy& tokenizer);

}  // namespace tenon
