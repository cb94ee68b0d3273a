// SPDX-License-Identifier: Apache-2.0
//
// Formats the output of --plan, as text and as JSON.
#pragma once

#include "host/train/plan/recipe_plan.hpp"

#include <string>

namespace tenon {

std::string plan_text(const RecipePlan& plan);

// Returns one JSON object. Bytes and counts are integers.
std::string plan_json(const RecipePlan& plan);

}  // namespace tenon
