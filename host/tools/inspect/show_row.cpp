// SPDX-License-Identifier: Apache-2.0

#include "host/tools/inspect/show_row.hpp"

#include "host/embedding/row_folder.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>

namespace tenon {
namespace {

// The shortest text that parses to the same number: to the same float if the number is a float.
std::string shortest_text(double number) {
  std::array<char, 32> text;
  const auto narrow = static_cast<float>(number);
  const auto end = static_cast<double>(narrow) == number
                       ? std::to_chars(text.data(), text.data() + text.size(), narrow)
                       : std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

std::string json_text(const ShownRow& row, const std::vector<RowColumn>& columns) {
  nlohmann::ordered_json json = {{"table", row.table}, {"id", row.id}, {"place", row.source}};
  for (const RowColumn& column : columns) {
    if (column.is_list) {
      json["columns"][column.name] = column.numbers;
    } else {
      json["columns"][column.name] = column.numbers.front();
    }
  }
  return json.dump(-1, ' ', false, decltype(json)::error_handler_t::replace) + "\n";
}

}  // namespace

std::string row_text(const ShownRow& row, const std::vector<RowColumn>& columns, RowTextForm form) {
  if (form == RowTextForm::kJson) {
    return json_text(row, columns);
  }
  std::string text = formatted("table {}, id {}, {}\n", row.table, row.id, row.source);
  size_t width = 0;
  for (const RowColumn& column : columns) {
    width = std::max(width, printable_line(column.name).size());
  }
  for (const RowColumn& column : columns) {
    const std::string name = printable_line(column.name);
    text += "  " + name + std::string(width - name.size() + 1, ' ');
    for (const double number : column.numbers) {
      text += " " + shortest_text(number);
    }
    text += "\n";
  }
  return text;
}

std::string exported_row_text(const std::string& folder,
                              const std::string& table,
                              std::int64_t id,
                              RowTextForm form) {
  const std::vector<std::filesystem::path> files = row_files(folder, table);
  for (const std::filesystem::path& file : files) {
    if (const auto row = find_row(file, id)) {
      return row_text({.table = table, .id = id, .source = file.string()}, *row, form);
    }
  }
  throw Error(
      "table.no_row",
      formatted("table '{}' has no row of id {} in {}; ids are those that the dataset and the "
                "recipe's features give",
                table,
                id,
                folder));
}

}  // namespace tenon
