// SPDX-License-Identifier: Apache-2.0
//
// The files with the rows of a table in a folder: one for each rank that wrote its rows.
// row_file.hpp defines their content.
// Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

// Returns the file for a rank's rows: "DIR/user.parquet", or "DIR/user-00001-of-00004.parquet".
std::filesystem::path row_file(const std::filesystem::path& folder,
                               const std::string& table,
                               int64_t rank,
                               int64_t num_ranks);

// True if the folder has a file of the table.
bool has_row_files(const std::filesystem::path& folder, const std::string& table);

// Returns the files of a table, for any number of ranks that wrote them.
//
// Errors  table.bad_file: the folder has none, or one of several is missing
std::vector<std::filesystem::path> row_files(const std::filesystem::path& folder,
                                             const std::string& table);

}  // namespace tenon
