// SPDX-License-Identifier: Apache-2.0
//
// The completion script of zsh, made from the option tables; made for the function path: the file
// is named _tenon. Threads: any.
#pragma once

#include "host/terminal/action.hpp"

#include <string>

namespace tenon {

// Returns the script for the command `tenon`.
std::string zsh_completion(ActionTable actions);

}  // namespace tenon
