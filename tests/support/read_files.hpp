// SPDX-License-Identifier: Apache-2.0
//
// What is in a file, and which files are in a folder: for tests that look at what a program left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

// Its bytes; "" where there is none.
std::string file_text(const std::filesystem::path& file);
// Its lines; none where there is none.
std::vector<std::string> file_lines(const std::filesystem::path& file);
// The names of what is in a folder, sorted; none where there is no folder.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace tenon
