// SPDX-License-Identifier: Apache-2.0
//
// `--set path=value`: one value of the recipe replaced or added from the command line.
// The path is dotted ("train.steps", "hooks.0.options.patience", "losses[0].weight"), or a JSON
// pointer where it starts with "/" (for keys that hold dots). The value is JSON where it parses,
// else a string.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// The tokens of a dotted path or pointer, or nothing where it is neither ("a..b", "a[x]", "").
std::optional<std::vector<std::string>> split_path(std::string_view path);

// Applies the `number`th --set (from 1) to `root`. Objects and lists on the way that are missing
// or null are made; an index equal to the length of its list appends. What cannot be applied
// becomes a problem (recipe.bad_set, recipe.not_utf8, recipe.duplicate_key, recipe.too_deep) and
// changes nothing.
//
// Errors   usage.bad_set where `assignment` is not of the form path=value
void apply_override(const std::string& assignment,
                    int number,
                    nlohmann::json& root,
                    PlaceMap& places,
                    std::vector<Problem>& problems);

}  // namespace tenon
