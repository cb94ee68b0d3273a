// SPDX-License-Identifier: Apache-2.0
//
// Texts in a row, and texts cut into lines.
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// "a, b, c"; "" for an empty list.
std::string joined(const std::vector<std::string>& texts, std::string_view separator = ", ");

// The lines of `text` without their line feeds. A line feed at the end starts no further line. The
// views last as long as `text`.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tenon
