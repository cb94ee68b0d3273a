// SPDX-License-Identifier: Apache-2.0
//
// The completion script of fish, made from the option tables; an option of an action is offered
// after the action. Threads: any.
#pragma once

#include "host/terminal/action.hpp"

#include <string>

namespace tenon {

// Returns the script for the command `tenon`.
std::string fish_completion(ActionTable actions);

}  // namespace tenon
