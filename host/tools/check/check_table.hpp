// SPDX-License-Identifier: Apache-2.0
//
// The table of all checks, in the order in which they run.
// Threads: any.
#pragma once

#include "host/tools/check/check.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

std::span<const Check> all_checks();

// Returns the checks of this name or group; all for "". Empty if there are none.
std::vector<const Check*> find_checks(std::string_view name_or_group);

// Returns the names of all groups, in order.
std::vector<std::string> check_groups();

}  // namespace tenon
