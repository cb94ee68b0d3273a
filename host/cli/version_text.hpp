// SPDX-License-Identifier: Apache-2.0
//
// The output of --version: the program and its dependencies in one line, for bug reports.

#pragma once

#include <string>

namespace tenon {

// Returns "tenon 0.1.0 (ABI 0.5, libtorch 2.11.0+cu130, g++ 12.2.0, x86_64)", without a line break.
std::string version_text();

}  // namespace tenon
