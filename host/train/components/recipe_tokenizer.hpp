// SPDX-License-Identifier: Apache-2.0
//
// The tokenizer of a run: the one that its training data uses. Components have tokenizers in their
// options; a recipe has none of its own.
// Threads: [main].
#pragma once

#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Returns the tokenizer that the training data uses, or else that of another component. Nothing if
// no component has one.
std::optional<ComponentUse> recipe_tokenizer(const Recipe& recipe);

// Returns the files of the run's tokenizer for exports, as pairs of name and content. None if the
// recipe has no tokenizer. If the tokenizer cannot be created, for example because its file has
// been moved, warns and returns none.
std::vector<std::pair<std::string, std::string>> tokenizer_files(const Recipe& recipe,
                                                                 ComponentFactory& factory);

}  // namespace tenon
