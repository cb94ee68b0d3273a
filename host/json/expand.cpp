// SPDX-License-Identifier: Apache-2.0

#include "host/json/expand.hpp"

#include "host/error/utf8.hpp"
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
  Expander(const EnvLookup& lookup, PlaceMap& places, std::vector<Problem>& problems)
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

 private:
  std::string expanded(const std::string& text, const std::string& pointer) {
    std::string result;
    std::string last_name;
    std::size_t i = 0;
    while (i < text.size()) {
      const std::string_view rest = std::string_view(text).substr(i);
      if (rest.starts_with("$${")) {
        result += "${";
        i += 3;
      } else if (rest.starts_with("${")) {
        const std::size_t end = rest.find('}');
        const std::string_view inside = rest.substr(2, end == std::string_view::npos ? 0 : end - 2);
        const std::string name(inside.starts_with("ENV:") ? inside.substr(4) : "");
        if (!is_variable_name(name)) {
          add("recipe.bad_env",
              pointer,
              "a \"${\" that is no ${ENV:NAME}",
              brief_value(text),
              "write \"$${\" for a literal \"${\"");
          return text;
        }
        const std::optional<std::string> found = lookup_(name);
        if (!found) {
          add("recipe.env_unset",
              pointer,
              "the environment variable " + name + " is not set",
              brief_value(text),
              "set it, or write the value into the recipe");
        } else if (!is_utf8(*found)) {
          add("recipe.not_utf8",
              pointer,
              "the environment variable " + name + " is not valid UTF-8",
              brief_value(text),
              "");
        } else {
          result += *found;
        }
        last_name = name;
        i += end + 1;
      } else {
        result += text[i++];
      }
    }
    if (!last_name.empty()) {
      Place place = places_.at(pointer);
      place.env = last_name;
      places_.set(pointer, place);
    }
    return result;
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
  std::vector<Problem>& problems_;
};

}  // namespace

EnvLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

void expand_environment(json& value,
                        const EnvLookup& lookup,
                        PlaceMap& places,
                        std::vector<Problem>& problems) {
  Expander(lookup, places, problems).expand(value, "");
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
