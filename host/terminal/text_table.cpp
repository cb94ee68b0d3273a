// SPDX-License-Identifier: Apache-2.0

#include "host/terminal/text_table.hpp"

#include "host/error/plugin_text.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace tenon {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kLeastWrapped = 24;  // narrower text is harder to read than a long line

using Row = std::vector<std::string>;

// Width in UTF-8 characters, not bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// Text of one line: a line break becomes a space, other control characters are escaped.
std::string cell_text(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return printable_line(text);
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = {""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && width_of(lines.back()) + 1 + width_of(word) > width) {
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

}  // namespace

std::string text_table(const std::vector<Row>& rows) {
  if (rows.empty()) {
    return {};
  }
  std::vector<Row> kept(rows.size());
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    const bool is_used = std::any_of(
        rows.begin() + 1, rows.end(), [column](const Row& row) { return !row[column].empty(); });
    for (std::size_t i = 0; is_used && i < rows.size(); ++i) {
      kept[i].push_back(cell_text(rows[i][column]));
    }
  }
  const std::size_t num_columns = kept.front().size();
  if (num_columns == 0) {
    return {};
  }
  std::vector<std::size_t> widths(num_columns - 1, 0);
  std::size_t last_start = 0;
  for (std::size_t column = 0; column + 1 < num_columns; ++column) {
    for (const Row& row : kept) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
    last_start += widths[column] + 2;
  }
  const std::size_t last_width =
      last_start + kLeastWrapped > kLineWidth ? kLeastWrapped * 2 : kLineWidth - last_start;
  std::string text;
  for (const Row& row : kept) {
    std::string line;
    for (std::size_t column = 0; column + 1 < num_columns; ++column) {
      line += row[column] + std::string(widths[column] + 2 - width_of(row[column]), ' ');
    }
    for (const std::string& part : wrapped(row.back(), last_width)) {
      line += part;
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      line.assign(last_start, ' ');
    }
  }
  return text;
}

}  // namespace tenon
