// SPDX-License-Identifier: Apache-2.0
//
// Checks that train the recipe of --recipe with the plugin, in processes of the program itself and
// on the CPU. The runs are in a temporary folder.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_recipe_trains(Subject& subject);
CheckResult check_recipe_repeatable(Subject& subject);
CheckResult check_recipe_resumes(Subject& subject);
CheckResult check_recipe_ranks(Subject& subject);
CheckResult check_recipe_calls(Subject& subject);
CheckResult check_recipe_fp64(Subject& subject);

}  // namespace tenon
