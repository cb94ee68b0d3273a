// SPDX-License-Identifier: Apache-2.0
//
// The text that the program prints for the error that ends it.

#pragma once

#include "host/error/error.hpp"

#include <string>

namespace tenon {

// "host: [plugin.crashed] ...", or all problems of a recipe. Errors of the command line are
// followed by a usage line. Ends in a line break.
std::string failure_text(const Error& error, const std::string& program);

}  // namespace tenon
