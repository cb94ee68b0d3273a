// SPDX-License-Identifier: Apache-2.0

#include "host/json/expand.hpp"

#include "host/error/utf8.hpp"
#include "host/io/sha256.hpp"
#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

bool is_variable_name(std::string_view name) {
  return !name.empty() && (std::isdigit(static_cast<unsigned char>(name.front())) == 0) &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

class Expander {
 public:
  Expander(const EnvLookup& lookup, PlaceMap& places, ProblemList& problems)
      : lookup_(lookup), places_(places), problems_(problems) {}

  void expand(json& value, const std::string& pointer) {
    if (value.is_object()) {
      for (auto& [key, child] : value.items()) {
        expand(child, join_pointer(pointer, key));
      }
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        expand(value[i], join_pointer(pointer, i));
      }
    } else if (value.is_string()) {
      value = expanded(value.get_ref<const std::string&>(), pointer);
    }
  }

  ExpandedStrings take() { return std::move(strings_); }

 private:
  std::string expanded(const std::string& text, const std::string& pointer) {
    const auto parts = split_environment(text);
    if (!parts) {
      add("recipe.bad_env",
          pointer,
          "a \"${\" that is no ${ENV:NAME}",
          brief_value(text),
          "write \"$${\" for a literal \"${\"");
      return text;
    }
    std::string result;
    std::string last_name;
    for (const TextPart& part : *parts) {
      result += part.is_variable ? value_of(part.text, text, pointer) : part.text;
      last_name = part.is_variable ? part.text : last_name;
    }
    if (!last_name.empty()) {
      Place place = places_.at(pointer);
      place.env = last_name;
      places_.set(pointer, place);
      strings_.by_pointer.insert_or_assign(pointer, ExpandedString{text, result});
    }
    return result;
  }

  std::string value_of(const std::string& name,
                       const std::string& text,
                       const std::string& pointer) {
    const std::optional<std::string> found = lookup_(name);
    if (!found) {
      add("recipe.env_unset",
          pointer,
          "the environment variable " + name + " is not set",
          brief_value(text),
          "set it, or write the value into the recipe");
      return "";
    }
    if (!is_utf8(*found)) {
      add("recipe.not_utf8",
          pointer,
          "the environment variable " + name + " is not valid UTF-8",
          brief_value(text),
          "");
      return "";
    }
    strings_.fingerprints.try_emplace(name, value_fingerprint(*found));
    return *found;
  }

  void add(const char* id,
           const std::string& pointer,
           std::string what,
           std::string found,
           std::string note) {
    problems_.push_back({.id = id,
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = std::move(what),
                         .found = std::move(found),
                         .note = std::move(note)});
  }

  const EnvLookup& lookup_;
  PlaceMap& places_;
  ProblemList& problems_;
  ExpandedStrings strings_;
};

}  // namespace

EnvLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

ExpandedStrings expand_environment(json& value,
                                   const EnvLookup& lookup,
                                   PlaceMap& places,
                                   ProblemList& problems) {
  Expander expander(lookup, places, problems);
  expander.expand(value, "");
  return expander.take();
}

std::string value_fingerprint(std::string_view value) {
  constexpr std::size_t kDigits = 4;
  return sha256_text("tenon recipe variable\n" + std::string(value)).substr(0, kDigits);
}

std::optional<std::vector<TextPart>> split_environment(std::string_view text) {
  constexpr std::string_view kStart = "${ENV:";
  std::vector<TextPart> parts;
  const auto add_literal = [&parts](std::string_view literal) {
    if (parts.empty() || parts.back().is_variable) {
      parts.emplace_back();
    }
    parts.back().text += literal;
  };
  while (!text.empty()) {
    if (text.starts_with("$${")) {
      add_literal("${");
      text.remove_prefix(3);
    } else if (text.starts_with("${")) {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos || !text.starts_with(kStart) ||
          !is_variable_name(text.substr(kStart.size(), end - kStart.size()))) {
        return std::nullopt;
      }
      parts.push_back({std::string(text.substr(kStart.size(), end - kStart.size())), true});
      text.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::max<std::size_t>(1, std::min(text.find('$'), text.size()));
      add_literal(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
  return parts;
}

std::string escape_environment(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${")) {
      result += '$';
    }
    result += text[i];
  }
  return result;
}

}  // namespace tenon
