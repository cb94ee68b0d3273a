// SPDX-License-Identifier: Apache-2.0
//
// What --plan prints: for people, and as JSON.
#pragma once

#include "host/train/plan/recipe_plan.hpp"

#include <string>

namespace tenon {

std::string plan_text(const RecipePlan& plan);

// One object; docs/ranks.md names its keys. Bytes and counts are whole numbers.
std::string plan_json(const RecipePlan& plan);

}  // namespace tenon
