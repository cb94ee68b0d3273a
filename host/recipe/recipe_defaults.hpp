// SPDX-License-Identifier: Apache-2.0
//
// Completes a recipe: the defaults of its schema, then those that follow from other keys or from
// the machine, which a schema cannot state.
#pragma once

#include "host/json/place.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// Adds the defaults to `root`, and their places to `places`. Leaves values alone that the user
// wrote, and values of a wrong type. `path` is the recipe file; `compute_threads` are those of a
// recipe without "threads.compute", 0 for one per processor.
void complete_recipe(nlohmann::json& root,
                     PlaceMap& places,
                     const std::string& path,
                     int compute_threads);

}  // namespace tenon
