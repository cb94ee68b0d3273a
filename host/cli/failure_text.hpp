// SPDX-License-Identifier: Apache-2.0
//
// The text that the program prints for the error that ends it.

#pragma once

#include "host/error/error.hpp"

#include <string>

namespace tenon {

// Returns "host: [plugin.crashed] ...", or all problems of a recipe. Adds a usage line to errors of
// the command line. The text ends in a line break.
std::string failure_text(const Error& error, const std::string& program);

}  // namespace tenon
