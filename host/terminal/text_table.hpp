// SPDX-License-Identifier: Apache-2.0
//
// Tables of text in columns, for terminals. Programs read JSON instead.

#pragma once

#include <string>
#include <vector>

namespace tenon {

// Formats rows with equal numbers of cells; the first row is the heading. Each column is as wide as
// its widest cell; the last column is wrapped at 100 characters. Columns without text below their
// heading are omitted. Control characters are replaced with spaces.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tenon
