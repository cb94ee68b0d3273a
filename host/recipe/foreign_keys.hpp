// SPDX-License-Identifier: Apache-2.0
//
// Keys of other trainers. If a recipe has one, the message about the unknown key names the key of
// Tenon that sets the same thing.
// Threads: every function may be called from any thread.
#pragma once

#include "host/json/problem.hpp"

#include <string_view>

namespace tenon {

// Returns what sets the same thing here, as in "\"train.steps\""; "" for keys that are not known.
std::string_view key_for_foreign(std::string_view key);

// Adds it to the problems of unknown keys that have no other note.
void point_to_own_keys(ProblemList& problems);

}  // namespace tenon
