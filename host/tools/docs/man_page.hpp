// SPDX-License-Identifier: Apache-2.0
//
// The man page tenon(1), made from the tables of all actions.
// Threads: any.
#pragma once

#include "host/terminal/action.hpp"

#include <string>

namespace tenon {

// Returns the page in the form of man(7). It has no date, so that equal programs print equal pages.
std::string man_page(ActionTable actions);

}  // namespace tenon
