// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_choice.hpp"

#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"

#include <algorithm>
#include <string_view>

namespace tenon {
namespace {

// Returns the parts between the '*' of a pattern: one more than it has '*'.
std::vector<std::string_view> split_at_stars(std::string_view pattern) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t star = pattern.find('*'); star != std::string_view::npos;
       star = pattern.find('*', begin)) {
    parts.push_back(pattern.substr(begin, star - begin));
    begin = star + 1;
  }
  parts.push_back(pattern.substr(begin));
  return parts;
}

// Returns the text that each '*' matches, or nothing if `name` does not match.
std::optional<std::vector<std::string_view>> captures(std::string_view pattern,
                                                      std::string_view name) {
  const std::vector<std::string_view> parts = split_at_stars(pattern);
  if (parts.size() == 1) {
    return name == pattern ? std::optional(std::vector<std::string_view>()) : std::nullopt;
  }
  if (name.size() < parts.front().size() + parts.back().size() ||
      !name.starts_with(parts.front()) || !name.ends_with(parts.back())) {
    return std::nullopt;
  }
  name.remove_prefix(parts.front().size());
  name.remove_suffix(parts.back().size());
  std::vector<std::string_view> result;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t at = name.find(parts[i]);
    if (at == std::string_view::npos) {
      return std::nullopt;
    }
    result.push_back(name.substr(0, at));
    name.remove_prefix(at + parts[i].size());
  }
  result.push_back(name);
  return result;
}

}  // namespace

std::optional<std::string> renamed(const std::string& name, const LoadRename& rule) {
  const auto texts = captures(rule.from, name);
  if (!texts.has_value()) {
    return std::nullopt;
  }
  const std::vector<std::string_view> parts = split_at_stars(rule.to);
  std::string result(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    result.append(texts->at(i - 1)).append(parts[i]);
  }
  return result;
}

bool LoadChoice::takes(const std::string& name) const {
  return matches_any(load_.match, name) && !matches_any(load_.exclude, name);
}

bool LoadChoice::takes_all() const {
  return load_.exclude.empty() && std::ranges::find(load_.match, "*") != load_.match.end();
}

std::string LoadChoice::name_here(const std::string& there) const {
  for (const LoadRename& rule : load_.rename) {
    if (auto name = renamed(there, rule)) {
      return *std::move(name);
    }
  }
  return there;
}

std::vector<std::string> LoadChoice::idle(const std::vector<std::string>& here,
                                          const std::vector<std::string>& there) const {
  std::vector<std::string> idle;
  const auto look = [&](const char* key, size_t i, const std::string& pattern, bool is_used) {
    if (!is_used) {
      idle.push_back(formatted("{}/{}/{}: '{}'", load_.pointer, key, i, pattern));
    }
  };
  const auto look_at_all = [&](const char* key, const std::vector<std::string>& patterns) {
    for (size_t i = 0; i < patterns.size(); ++i) {
      const auto is_fit = [&](const std::string& name) {
        return matches_pattern(patterns[i], name);
      };
      const auto is_fit_here = [&](const std::string& name) { return is_fit(name_here(name)); };
      look(key,
           i,
           patterns[i],
           patterns[i] == "*" || std::ranges::any_of(here, is_fit) ||
               std::ranges::any_of(there, is_fit_here));
    }
  };
  look_at_all("match", load_.match);
  look_at_all("exclude", load_.exclude);
  for (size_t i = 0; i < load_.resize.size(); ++i) {
    look("resize", i, load_.resize[i], std::ranges::any_of(here, [&](const std::string& name) {
           return matches_pattern(load_.resize[i], name);
         }));
  }
  for (size_t i = 0; load_.is_strict && i < load_.rename.size(); ++i) {
    look(
        "rename", i, load_.rename[i].from, std::ranges::any_of(there, [&](const std::string& name) {
          return renamed(name, load_.rename[i]).has_value();
        }));
  }
  return idle;
}

}  // namespace tenon
