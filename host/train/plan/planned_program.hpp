// SPDX-License-Identifier: Apache-2.0
//
// The program of a planned training pass, as a table for people, for --program.
// Threads: any.
#pragma once

#include "host/train/plan/recipe_plan.hpp"

#include <string>

namespace tenon {

// Returns the instructions of a microbatch on one rank, one a line: the instruction, its block, its
// group of parameters, and details.
std::string program_text(const RecipePlan& plan);

}  // namespace tenon
