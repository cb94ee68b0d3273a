// SPDX-License-Identifier: Apache-2.0
//
// Joins texts, and splits text into lines.
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Returns "a, b, c"; "" for an empty list.
std::string joined(const std::vector<std::string>& texts, std::string_view separator = ", ");

// Returns the lines of `text` without their line feeds. A final line feed starts no further line.
// The views are valid as long as `text`.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tenon
