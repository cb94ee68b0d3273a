// SPDX-License-Identifier: Apache-2.0
//
// Files that options of the dataset name.
// Threads: any.
#pragma once

#include <string>
#include <vector>

namespace tenon {

// The files that names and patterns (*, ?, [...]) stand for, in name order.
//
// Errors   chat.open
std::vector<std::string> expand_file_names(const std::vector<std::string>& names);

// The content of a small file.
//
// Errors   chat.open, chat.no_file, chat.read
std::string read_text_file(const std::string& path);

}  // namespace tenon
