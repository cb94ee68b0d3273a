// SPDX-License-Identifier: Apache-2.0

#include "host/json/override.hpp"

#include "host/error/utf8.hpp"
#include "host/json/json_path.hpp"
#include "host/json/json_source.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

int depth_of(const json& value) {
  int deepest = 0;
  if (value.is_structured()) {
    for (const json& child : value) {
      deepest = std::max(deepest, depth_of(child));
    }
    return deepest + 1;
  }
  return 0;
}

// Returns the value to set. Text that is not JSON becomes a string, but duplicate keys and
// excessive nesting are errors.
json parse_value(std::string_view text) {
  try {
    return parse_json(text, "value");
  } catch (const Error& error) {
    if (error.id() != "recipe.syntax") {
      throw;
    }
    return std::string(text);
  }
}

// Explains why `token` is not a valid index of the list at `pointer`.
std::string bad_index(const std::string& token, const std::string& pointer, std::size_t size) {
  const std::string text = parse_index(token)
                               ? "index " + token + " is out of range for the list " + pointer
                               : pointer + " is a list, and \"" + token + "\" is no index of it";
  if (size == 0) {
    return text + "; it is empty, so only 0 (append) is possible";
  }
  return formatted("{}; it has {}, so 0 to {} (append) is possible",
                   text,
                   counted(size, "entry", "entries"),
                   size);
}

// Sets the value at `tokens` below `root`, and creates missing containers. Returns an error, or "".
// After an error, `root` may be partly changed; callers pass a copy.
std::string assign(json& root, const std::vector<std::string>& tokens, json value) {
  json* at = &root;
  std::string pointer;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    if (at->is_null()) {
      // Index 0 creates a list, because "0" is not a key of any recipe. Other tokens create an
      // object.
      *at = token == "0" ? json::array() : json::object();
    }
    if (at->is_object()) {
      at = &(*at)[token];
    } else if (at->is_array()) {
      const auto index = parse_index(token);
      if (!index || *index > at->size()) {
        return bad_index(token, pointer, at->size());
      }
      if (*index == at->size()) {
        at->push_back(nullptr);
      }
      at = &(*at)[*index];
    } else {
      return (pointer.empty() ? "the recipe" : pointer) + " is " + brief_value(*at) +
             ", neither object nor list, and has no \"" + token + "\" in it";
    }
    pointer = join_pointer(pointer, token);
  }
  *at = std::move(value);
  return {};
}

}  // namespace

std::optional<std::vector<std::string>> split_path(std::string_view path) {
  if (path.starts_with('/')) {
    return split_pointer(path);
  }
  std::vector<std::string> tokens;
  std::size_t i = 0;
  bool expects_key = true;
  while (i < path.size()) {
    if (path[i] == '[') {
      const std::size_t end = path.find(']', i);
      if (end == std::string_view::npos || (expects_key && i != 0)) {
        return std::nullopt;
      }
      const std::string_view index = path.substr(i + 1, end - i - 1);
      if (!parse_index(index)) {
        return std::nullopt;
      }
      tokens.emplace_back(index);
      i = end + 1;
      expects_key = false;
    } else if (path[i] == '.') {
      if (expects_key) {
        return std::nullopt;
      }
      expects_key = true;
      ++i;
    } else {
      if (!expects_key) {
        return std::nullopt;  // "a[0]b"
      }
      const std::size_t end = std::min(path.find_first_of(".[", i), path.size());
      tokens.emplace_back(path.substr(i, end - i));
      i = end;
      expects_key = false;
    }
  }
  if (expects_key) {
    return std::nullopt;
  }
  return tokens;
}

void apply_override(const std::string& assignment,
                    int number,
                    json& root,
                    PlaceMap& places,
                    ProblemList& problems) {
  const Place place{.origin = PlaceOrigin::kSet, .number = number};
  const std::size_t equals = assignment.find('=');
  const auto tokens = split_path(std::string_view(assignment).substr(0, equals));
  if (equals == std::string::npos || !tokens || tokens->empty()) {
    throw Error("usage.bad_set",
                place.text() + ": \"" + assignment +
                    "\" is not of the form path=value; write for example train.steps=10, "
                    "hooks.0.options.patience=3 or /losses/0/weight=2");
  }
  const auto fail = [&](const std::string& id, const std::string& pointer, std::string what) {
    problems.push_back({.id = id, .place = place, .pointer = pointer, .what = std::move(what)});
  };
  std::string pointer;
  for (const std::string& token : *tokens) {
    pointer = join_pointer(pointer, token);
  }
  if (!is_utf8(assignment)) {
    fail("recipe.not_utf8", "", "the text of this --set is not valid UTF-8");
    return;
  }
  json value;
  try {
    value = parse_value(std::string_view(assignment).substr(equals + 1));
  } catch (const Error& error) {
    fail(error.id(), pointer, error.message());
    return;
  }
  if (static_cast<int>(tokens->size()) + depth_of(value) > kMaxJsonDepth) {
    fail("recipe.too_deep",
         "",
         formatted("the value would be nested more than {} levels deep", kMaxJsonDepth));
    return;
  }
  json changed = root;
  const std::string obstacle = assign(changed, *tokens, std::move(value));
  if (!obstacle.empty()) {
    fail("recipe.bad_set", pointer, "cannot be set: " + obstacle);
    return;
  }
  root = std::move(changed);
  // Containers that this --set created also get its place.
  std::string_view made = pointer;
  for (std::string_view above = parent_pointer(made); !above.empty() && !places.has(above);
       above = parent_pointer(above)) {
    made = above;
  }
  places.set(std::string(made), place);
}

}  // namespace tenon
