// SPDX-License-Identifier: Apache-2.0
//
// What the program prints of the error that ends it.

#pragma once

#include "host/error/error.hpp"

#include <string>

namespace tenon {

// "host: [plugin.crashed] ..."; all the problems of a recipe; with a usage line below what is wrong
// with the command line itself. Ends in a line break.
std::string failure_text(const Error& error, const std::string& program);

}  // namespace tenon
