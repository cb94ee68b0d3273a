// SPDX-License-Identifier: Apache-2.0
//
// --version: what this program is made of, in a line that can be pasted into a report.

#pragma once

#include <string>

namespace tenon {

// "tenon 0.1.0 (ABI 0.1, libtorch 2.11.0+cu130, g++ 12.2.0, x86_64)", without a line break.
std::string version_text();

}  // namespace tenon
