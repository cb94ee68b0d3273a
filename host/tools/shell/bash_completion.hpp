// SPDX-License-Identifier: Apache-2.0
//
// The completion script of bash, made from the option tables; needs bash 4.3 and no other script.
// Threads: any.
#pragma once

#include "host/terminal/action.hpp"

#include <string>

namespace tenon {

// Returns the script for the command `tenon`.
std::string bash_completion(ActionTable actions);

}  // namespace tenon
