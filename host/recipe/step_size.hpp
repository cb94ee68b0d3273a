// SPDX-License-Identifier: Apache-2.0
//
// Rules of the keys that set the size of a step: global_batch_size, global_batch_tokens and
// gradient_accumulation. contradiction.hpp has the rules of all other keys.

#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

namespace tenon {

// Adds contradictions, and sizes that do not divide into microbatches, to `problems`. Skips values
// of a wrong type.
void check_step_size(const nlohmann::json& root, const PlaceMap& places, ProblemList& problems);

}  // namespace tenon
