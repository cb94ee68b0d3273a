// SPDX-License-Identifier: Apache-2.0
//
// Replaces ${ENV:NAME} in the strings of a recipe by the value of an environment variable. "$${"
// means a literal "${". Keys are never expanded, and the result is always a string.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns the value of a variable, or null if it is not set.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Looks up variables in the environment of this process.
EnvLookup process_environment();

// Expands every string in `value`, in place. Adds the problems recipe.env_unset, recipe.bad_env and
// recipe.not_utf8, each with its place.
void expand_environment(nlohmann::json& value,
                        const EnvLookup& lookup,
                        PlaceMap& places,
                        std::vector<Problem>& problems);

// Returns the text that expands to `text`, with every "${" written as "$${".
std::string escape_environment(std::string_view text);

}  // namespace tenon
