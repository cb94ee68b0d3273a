// SPDX-License-Identifier: Apache-2.0
//
// Rows of text in columns, for people. Programs read JSON instead.

#pragma once

#include <string>
#include <vector>

namespace tenon {

// Rows of equally many cells, of which the first is the heading. Each column is as wide as its
// widest cell; the last one is wrapped at 100 characters. Columns without a text below their
// heading are left out. What a terminal could take for a command (a control character) becomes a
// blank.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tenon
