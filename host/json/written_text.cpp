// SPDX-License-Identifier: Apache-2.0
#include "host/json/written_text.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>

namespace tenon {
namespace {

using nlohmann::json;

// Replaces shorter texts only where they are quoted: "8" occurs in too many words.
constexpr std::size_t kLeastUnquoted = 6;

// Leaves texts alone that are replaced already, in which `from` may occur again.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t inside = to.find(from);
  for (std::size_t at = text.find(from); at != std::string::npos && !from.empty();) {
    const bool is_done = inside != std::string_view::npos && at >= inside &&
                         text.compare(at - inside, to.size(), to) == 0;
    if (!is_done) {
      text.replace(at, from.size(), to);
    }
    at = text.find(from, (is_done ? at - inside : at) + to.size());
  }
}

bool is_related(const std::string& pointer, const std::string& other) {
  return is_at_or_below(pointer, other) || is_at_or_below(other, pointer);
}

// Replaces `value` as messages print it.
void replace_value(Problem& problem, const json& value, const json& written) {
  for (std::string* const text : {&problem.what, &problem.found, &problem.hint}) {
    replace_all(*text, brief_value(value), brief_value(written));
  }
}

}  // namespace

json as_written(json root, const ExpandedStrings& strings) {
  for (const auto& [pointer, string] : strings.by_pointer) {
    if (json* const node = find_at(root, pointer); node != nullptr && node->is_string()) {
      *node = string.written;
    }
  }
  return root;
}

void show_as_written(ProblemList& problems, const json& root, const ExpandedStrings& strings) {
  if (strings.by_pointer.empty() || problems.empty()) {
    return;
  }
  const json written = as_written(root, strings);
  for (Problem& problem : problems.editable()) {
    const json* const now = find_at(root, problem.pointer);
    const json* const shown = find_at(written, problem.pointer);
    for (const auto& [pointer, string] : strings.by_pointer) {
      if (is_related(pointer, problem.pointer)) {
        replace_value(problem, string.expanded, string.written);
        if (now != nullptr && shown != nullptr) {  // a container, or a path made absolute
          replace_value(problem, *now, *shown);
        }
      }
      if (string.expanded.size() >= kLeastUnquoted) {
        for (std::string* const text :
             {&problem.what, &problem.expected, &problem.found, &problem.hint, &problem.note}) {
          replace_all(*text, string.expanded, string.written);
        }
      }
    }
  }
}

}  // namespace tenon
