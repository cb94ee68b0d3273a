// SPDX-License-Identifier: Apache-2.0
//
// Implements the option `--set path=value`, which replaces or adds one value of the recipe.
// The path is dotted ("train.steps", "hooks.0.options.patience", "losses[0].weight"), or a JSON
// pointer if it starts with "/" (for keys with dots). The value is JSON if it parses, else a
// string.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns the tokens of a dotted path or pointer. Returns null for other text ("a..b", "a[x]", "").
std::optional<std::vector<std::string>> split_path(std::string_view path);

// Applies the `number`th --set (from 1) to `root`. Creates missing or null objects and lists along
// the path. An index equal to the length of a list appends. An assignment that cannot be applied
// changes nothing and adds a problem (recipe.bad_set, recipe.not_utf8, recipe.duplicate_key,
// recipe.too_deep).
//
// Errors   usage.bad_set if `assignment` does not have the form path=value
void apply_override(const std::string& assignment,
                    int number,
                    nlohmann::json& root,
                    PlaceMap& places,
                    ProblemList& problems);

}  // namespace tenon
