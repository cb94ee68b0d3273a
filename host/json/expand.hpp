// SPDX-License-Identifier: Apache-2.0
//
// ${ENV:NAME} inside the strings of a recipe, replaced by the value of an environment variable.
// "$${" stands for a literal "${". Keys are never expanded, and the result is always a string.

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

// The value of a variable, or nothing where it is not set.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

// The environment of this process.
EnvLookup process_environment();

// Expands every string in `value`, in place. Problems: recipe.env_unset, recipe.bad_env,
// recipe.not_utf8; each names its place.
void expand_environment(nlohmann::json& value,
                        const EnvLookup& lookup,
                        PlaceMap& places,
                        std::vector<Problem>& problems);

// The text that expands to `text`: every "${" written as "$${".
std::string escape_environment(std::string_view text);

}  // namespace tenon
