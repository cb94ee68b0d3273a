// SPDX-License-Identifier: Apache-2.0

#include "host/tools/docs/explain_error.hpp"

#include "host/error/catalogue.hpp"
#include "host/error/error.hpp"
#include "host/terminal/text_table.hpp"
#include "host/text/nearest_name.hpp"

#include <array>
#include <string>
#include <vector>

namespace tenon {
namespace {

std::string table_of_errors() {
  std::vector<std::vector<std::string>> rows = {{"id", "status", "meaning"}};
  for (const ErrorEntry& entry : all_errors()) {
    rows.push_back({std::string(entry.id),
                    std::to_string(static_cast<int>(entry.exit_code)),
                    std::string(entry.summary)});
  }
  return text_table(rows);
}

// The hint for an unknown id: the nearest ids, or how to list all ids.
std::string hint_for(std::string_view id) {
  std::vector<std::string> ids;
  for (const ErrorEntry& entry : all_errors()) {
    ids.emplace_back(entry.id);
  }
  for (const std::string& known : ids) {  // written without its area
    if (known.ends_with("." + std::string(id))) {
      return did_you_mean(known, std::array{known});
    }
  }
  const std::string hint = did_you_mean(id, ids);
  return hint.empty() ? "--explain all lists the ids of this program; a plugin may add "
                        "others, which its documentation explains"
                      : hint;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t last = text.find_last_not_of('\n');
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

std::string explain_error(std::string_view id) {
  if (id == "all") {
    return table_of_errors();
  }
  if (id.size() > 2 && id.front() == '[' && id.back() == ']') {
    id = id.substr(1, id.size() - 2);
  }
  for (const std::string_view section : error_page_sections().subspan(1)) {
    if (section.substr(0, section.find('\n')) == id) {
      return std::string(trimmed(section)) + "\n";
    }
  }
  throw Error("usage.bad_option",
              "--explain: there is no error \"" + std::string(id) + "\"; " + hint_for(id));
}

}  // namespace tenon
