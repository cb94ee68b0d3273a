// SPDX-License-Identifier: Apache-2.0
//
// The program of a planned training pass, as a table for people, for --program.
// Threads: any.
#pragma once

#include "host/train/plan/recipe_plan.hpp"

#include <string>

namespace tenon {

// Returns the instructions of the last microbatch of a step on one rank, or of all stages of a
// pipeline, one a line: the
// instruction, its block, the bytes that the rank holds after it, its group of parameters, the
// bytes that it sends, and details.
std::string program_table(const RecipePlan& plan);

}  // namespace tenon
