// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_folder.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <charconv>
#include <set>
#include <string_view>
#include <system_error>

namespace tenon {

std::filesystem::path row_file(const std::filesystem::path& folder,
                               const std::string& table,
                               int64_t rank,
                               int64_t num_ranks) {
  const auto five = [](int64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return folder / (num_ranks <= 1
                       ? table + ".parquet"
                       : table + "-" + five(rank) + "-of-" + five(num_ranks) + ".parquet");
}

namespace {

// Returns the number of ranks that wrote a table's files, from the name of the first file; 0 if no
// file exists.
int64_t num_ranks_of(const std::filesystem::path& folder, const std::string& table) {
  std::error_code ignored;
  if (std::filesystem::exists(row_file(folder, table, 0, 1), ignored)) {
    return 1;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kFirst = "-00000-of-";
    constexpr std::string_view kEnd = ".parquet";
    if (name.size() == table.size() + kFirst.size() + 5 + kEnd.size() &&
        name.starts_with(table + std::string(kFirst)) && name.ends_with(kEnd)) {
      int64_t num_ranks = 0;
      const char* digits = name.data() + table.size() + kFirst.size();
      std::from_chars(digits, digits + 5, num_ranks);
      return num_ranks;
    }
  }
  return 0;
}

// Lists the tables that have files in a folder, for messages.
std::string tables_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string name = entry.path().stem().string();
    const size_t of = name.rfind("-of-");
    constexpr size_t kRank = 6;  // length of "-00001"
    if (of != std::string::npos && of > kRank &&
        num_ranks_of(folder, name.substr(0, of - kRank)) > 0) {
      name.resize(of - kRank);
    }
    if (entry.path().extension() == ".parquet") {
      names.insert(name);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

bool has_row_files(const std::filesystem::path& folder, const std::string& table) {
  return num_ranks_of(folder, table) > 0;
}

std::vector<std::filesystem::path> row_files(const std::filesystem::path& folder,
                                             const std::string& table) {
  const int64_t num_ranks = num_ranks_of(folder, table);
  if (num_ranks == 0) {
    const std::string tables = tables_in(folder);
    throw Error("table.bad_file",
                folder.string() + " has no rows of table '" + table + "'; " +
                    (tables.empty() ? "give the folder that --export-tables wrote, whose files are "
                                      "called TABLE.parquet"
                                    : "it has those of " + tables));
  }
  std::vector<std::filesystem::path> files;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    files.push_back(row_file(folder, table, rank, num_ranks));
    std::error_code ignored;
    if (!std::filesystem::exists(files.back(), ignored)) {
      throw Error("table.bad_file",
                  formatted("{} is missing; the rows of {} ranks were exported",
                            files.back().string(),
                            num_ranks));
    }
  }
  return files;
}

}  // namespace tenon
