// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/excluded.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/run_state/state_names.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

namespace tenon {
namespace {

using Names = std::set<std::string, std::less<>>;

std::string first_ones(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  return names.size() > kShown ? text + ", ..." : text;
}

std::string_view after_slash(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(slash + 1);
}

// Returns the part of a path before the first '/'.
std::string_view first_part(std::string_view name) {
  return name.substr(0, name.find('/'));
}

struct Entries {
  Names parameters;
  Names tables;

  bool operator()(std::string_view name) const {
    const std::string kept = state_path(run_state::kBest, "kept");
    if (const auto best = name_below(name, kept)) {
      name = *best;
    }
    if (const auto table = name_below(name, run_state::kTables)) {
      return tables.contains(first_part(*table));
    }
    if (const auto parameter =
            name_below(name, run_state::kParameters)) {  // values/NAME, buffers/NAME
      return parameters.contains(after_slash(*parameter));
    }
    if (const auto optimizer = name_below(name, run_state::kOptimizer)) {
      const auto slot = name_below(*optimizer, "slots");  // SLOT/NAME
      return parameters.contains(after_slash(slot.has_value() ? *slot : *optimizer));
    }
    if (const auto average = name_below(name, run_state::kAverages)) {  // values/NAME
      return parameters.contains(after_slash(*average));
    }
    return false;
  }
};

}  // namespace

Excluded excluded_of(const std::vector<std::string>& patterns,
                     const ModelGraph& graph,
                     const std::vector<std::string>& tables) {
  Names parameters;
  Names left_tables;
  for (const std::string& pattern : patterns) {
    bool is_matched = false;
    for (const ModelParameter& parameter : graph.parameters) {
      if (matches_pattern(pattern, parameter.name)) {
        parameters.insert(parameter.same_as == kNoIndex ? parameter.name
                                                        : graph.parameters[parameter.same_as].name);
        is_matched = true;
      }
    }
    for (const ModelBuffer& buffer : graph.buffers) {
      if (buffer.kind == TENON_BUFFER_STATE && matches_pattern(pattern, buffer.name)) {
        parameters.insert(buffer.name);
        is_matched = true;
      }
    }
    for (const std::string& table : tables) {
      if (matches_pattern(pattern, table)) {
        left_tables.insert(table);
        is_matched = true;
      }
    }
    if (!is_matched) {
      std::vector<std::string> names;
      for (const ModelParameter& parameter : graph.parameters) {
        names.push_back(parameter.name);
      }
      throw Error("checkpoint.unmatched_exclude",
                  "/checkpoint/exclude: the pattern '" + pattern +
                      "' matches no parameter and no table; " +
                      (names.empty() ? "" : "the first parameters are " + first_ones(names)) +
                      (tables.empty() ? "" : "; the tables are " + first_ones(tables)));
    }
  }
  return {.parameters = {parameters.begin(), parameters.end()},
          .tables = {left_tables.begin(), left_tables.end()}};
}

StateTree::NameTest entries_of(const Excluded& excluded) {
  if (excluded.is_empty()) {
    return {};
  }
  // All copies of the test share the entries: copying a tree also copies its test.
  const auto entries = std::make_shared<const Entries>(
      Entries{{excluded.parameters.begin(), excluded.parameters.end()},
              {excluded.tables.begin(), excluded.tables.end()}});
  return [entries](std::string_view name) { return (*entries)(name); };
}

std::string excluded_text(const Excluded& excluded) {
  const auto text_of = [](const std::vector<std::string>& names, const char* what) {
    return formatted("{} ({})", counted(names.size(), what), first_ones(names));
  };
  std::string text;
  if (!excluded.parameters.empty()) {
    text = text_of(excluded.parameters, "parameter");
  }
  if (!excluded.tables.empty()) {
    text += (text.empty() ? "" : " and ") + text_of(excluded.tables, "table");
  }
  return text;
}

}  // namespace tenon
