// SPDX-License-Identifier: Apache-2.0
//
// Text and JSON of the longest sequences of a plan, for --longest.
// Threads: any.
#pragma once

#include "host/train/plan/recipe_plan.hpp"

#include <string>

namespace tenon {

std::string longest_text(const RecipePlan& plan);
std::string longest_json(const RecipePlan& plan);

}  // namespace tenon
