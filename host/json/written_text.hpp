// SPDX-License-Identifier: Apache-2.0
//
// Strings with ${ENV:NAME} as the user wrote them, for everything that people or other programs
// read: messages and frozen recipes. Values of variables may be secrets.
#pragma once

#include "host/json/expand.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tenon {

// Puts the strings as written back into an expanded recipe. Skips pointers that no longer lead to a
// string.
nlohmann::json as_written(nlohmann::json root, const ExpandedStrings& strings);

// Replaces the expanded strings in the texts of problems of `root` by the strings as written.
void show_as_written(ProblemList& problems,
                     const nlohmann::json& root,
                     const ExpandedStrings& strings);

}  // namespace tenon
