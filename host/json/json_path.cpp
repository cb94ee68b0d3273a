// SPDX-License-Identifier: Apache-2.0

#include "host/json/json_path.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace tenon {

using nlohmann::json;

std::string join_pointer(std::string_view base, std::string_view token) {
  std::string pointer(base);
  pointer += '/';
  for (const char c : token) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

std::string join_pointer(std::string_view base, std::size_t index) {
  return join_pointer(base, std::to_string(index));
}

std::string_view parent_pointer(std::string_view pointer) {
  const std::size_t slash = pointer.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : pointer.substr(0, slash);
}

std::optional<std::vector<std::string>> split_pointer(std::string_view pointer) {
  std::vector<std::string> tokens;
  if (pointer.empty()) {
    return tokens;
  }
  if (pointer.front() != '/') {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    const char c = pointer[i];
    if (c == '/') {
      tokens.emplace_back();
    } else if (c != '~') {
      tokens.back() += c;
    } else if (i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      tokens.back() += pointer[++i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return tokens;
}

bool is_at_or_below(std::string_view pointer, std::string_view ancestor) {
  return pointer.starts_with(ancestor) &&
         (pointer.size() == ancestor.size() || pointer[ancestor.size()] == '/');
}

std::optional<std::size_t> parse_index(std::string_view token) {
  const bool digits =
      !token.empty() && std::ranges::all_of(token, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || (token.size() > 1 && token.front() == '0')) {
    return std::nullopt;
  }
  std::size_t index = 0;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), index);
  return result.ec == std::errc() ? std::optional(index) : std::nullopt;
}

const json* find_at(const json& root, std::string_view pointer) {
  const auto tokens = split_pointer(pointer);
  if (!tokens) {
    return nullptr;
  }
  const json* value = &root;
  for (const std::string& token : *tokens) {
    if (value->is_object()) {
      const auto member = value->find(token);
      if (member == value->end()) {
        return nullptr;
      }
      value = &*member;
    } else if (value->is_array()) {
      const auto index = parse_index(token);
      if (!index || *index >= value->size()) {
        return nullptr;
      }
      value = &(*value)[*index];
    } else {
      return nullptr;
    }
  }
  return value;
}

json* find_at(json& root, std::string_view pointer) {
  return const_cast<json*>(find_at(static_cast<const json&>(root), pointer));
}

}  // namespace tenon
