// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/variable_marks.hpp"

#include "host/json/expand.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;
using Parts = std::vector<TextPart>;

constexpr std::string_view kSeparator = "__";
constexpr std::string_view kUnknown = "none";  // as long as a fingerprint
constexpr std::size_t kMarkSize = kSeparator.size() + kUnknown.size();

// More would take too long to match.
constexpr std::size_t kMaxMatchedParts = 6;
constexpr std::size_t kMaxMatchedBytes = 1000;

Parts parts_of(const json& value) {
  return split_environment(value.get_ref<const std::string&>()).value_or(Parts());
}

bool has_variables(const Parts& parts) {
  return std::ranges::any_of(parts, &TextPart::is_variable);
}

std::string unmarked_name(const TextPart& marked) {
  return marked.text.substr(0, marked.text.size() - kMarkSize);
}

std::string_view mark_of(const TextPart& marked) {
  return std::string_view(marked.text).substr(marked.text.size() - kUnknown.size());
}

// Replaces the names of variables in all strings.
void rename_variables(json& value, const std::function<std::string(const TextPart&)>& name) {
  if (value.is_structured()) {
    for (json& child : value) {
      rename_variables(child, name);
    }
    return;
  }
  if (!value.is_string()) {
    return;
  }
  const Parts parts = parts_of(value);
  if (!has_variables(parts)) {
    return;
  }
  std::string text;
  for (const TextPart& part : parts) {
    text += part.is_variable ? "${ENV:" + name(part) + "}" : escape_environment(part.text);
  }
  value = std::move(text);
}

// True if variables with these fingerprints can make the template equal to the text.
bool matches(std::span<const TextPart> parts, std::string_view text) {
  if (parts.empty()) {
    return text.empty();
  }
  const TextPart& first = parts.front();
  if (!first.is_variable) {
    return text.starts_with(first.text) &&
           matches(parts.subspan(1), text.substr(first.text.size()));
  }
  for (std::size_t size = parts.size() > 1 ? 0 : text.size(); size <= text.size(); ++size) {
    if (matches(parts.subspan(1), text.substr(size)) &&
        value_fingerprint(text.substr(0, size)) == mark_of(first)) {
      return true;
    }
  }
  return false;
}

bool have_equal_text(const Parts& a, const Parts& b) {
  const bool is_template = has_variables(a);
  if (is_template != has_variables(b)) {
    const Parts& parts = is_template ? a : b;
    const Parts& literal = is_template ? b : a;
    const std::string text = literal.empty() ? "" : literal.front().text;
    return parts.size() <= kMaxMatchedParts && text.size() <= kMaxMatchedBytes &&
           matches(parts, text);
  }
  return std::ranges::equal(a, b, [](const TextPart& one, const TextPart& other) {
    if (one.is_variable != other.is_variable) {
      return false;
    }
    return one.is_variable ? mark_of(one) == mark_of(other) && mark_of(one) != kUnknown
                           : one.text == other.text;
  });
}

}  // namespace

void mark_variables(json& recipe) {
  json fingerprints = json::object();
  if (const auto found = recipe.find("environment"); found != recipe.end()) {
    fingerprints = std::move(*found);
    recipe.erase("environment");
  }
  rename_variables(recipe, [&fingerprints](const TextPart& part) {
    const auto found = fingerprints.find(part.text);
    const bool is_known = found != fingerprints.end() && found->is_string() &&
                          found->get_ref<const std::string&>().size() == kUnknown.size();
    return part.text + std::string(kSeparator) +
           (is_known ? found->get<std::string>() : std::string(kUnknown));
  });
}

json without_marks(json value) {
  rename_variables(value, unmarked_name);
  return value;
}

bool have_equal_values(const json& a, const json& b) {
  if (a.is_array() && b.is_array()) {
    return std::ranges::equal(a, b, have_equal_values);
  }
  if (a.is_string() && b.is_string()) {
    return a == b || have_equal_text(parts_of(a), parts_of(b));
  }
  return a == b;
}

bool is_path_or_uri(const json& value) {
  if (!value.is_string()) {
    return false;
  }
  const EnvLookup lookup = process_environment();
  std::string text;
  for (const TextPart& part : parts_of(value)) {
    text += part.is_variable ? lookup(unmarked_name(part)).value_or("") : part.text;
  }
  return text.starts_with('/') || text.find("://") != std::string::npos;
}

}  // namespace tenon
