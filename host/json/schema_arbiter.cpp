// SPDX-License-Identifier: Apache-2.0
//
// The only file that includes valijson.

#include "host/json/schema_arbiter.hpp"

#include "host/error/error.hpp"
#include "host/json/json_path.hpp"
#include "host/json/schema_check.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <regex>
#include <stdexcept>
// Without this macro, valijson aborts the process if a schema is malformed.
#ifndef VALIJSON_USE_EXCEPTIONS
#define VALIJSON_USE_EXCEPTIONS 1
#endif
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace tenon {
namespace {

using nlohmann::json;

// Compiles every pattern and throws if one is invalid, because valijson compiles a pattern only
// when it checks a value. Returns true if the schema has patterns.
bool check_patterns(const json& schema, bool is_map_of_schemas = false) {
  bool has_pattern = false;
  if (schema.is_array()) {
    for (const json& one : schema) {
      has_pattern |= check_patterns(one);
    }
  } else if (schema.is_object()) {
    for (const auto& [key, value] : schema.items()) {
      if (key == "pattern" && value.is_string() && !is_map_of_schemas) {
        (void)std::regex(value.get<std::string>());
        has_pattern = true;
      } else if (key == "patternProperties" && value.is_object() && !is_map_of_schemas) {
        for (const std::string& pattern : keys_of(value)) {
          (void)std::regex(pattern);
        }
        has_pattern |= !value.empty();
        check_patterns(value, true);
      } else if (key != "default" && key != "const" && key != "enum" && key != "examples") {
        has_pattern |= check_patterns(
            value, !is_map_of_schemas && (key == "properties" || key == "definitions"));
      }
    }
  }
  return has_pattern;
}

// Returns the length in bytes of the longest string or key in a value.
std::size_t longest_text(const json& value) {
  std::size_t longest = value.is_string() ? value.get_ref<const std::string&>().size() : 0;
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      longest = std::max({longest, key.size(), longest_text(child)});
    }
  } else if (value.is_array()) {
    for (const json& child : value) {
      longest = std::max(longest, longest_text(child));
    }
  }
  return longest;
}

// Converts a path of valijson ("<root>", "[key]", "[0]") to a JSON pointer.
std::string pointer_of(const std::vector<std::string>& context, const std::string& base) {
  std::string pointer = base;
  for (const std::string& part : context) {
    if (part.size() >= 2 && part.front() == '[' && part.back() == ']') {
      pointer = join_pointer(pointer, part.substr(1, part.size() - 2));
    }
  }
  return pointer;
}

}  // namespace

struct SchemaArbiter::Impl {
  valijson::Schema schema;
  bool has_pattern = false;
};

SchemaArbiter::SchemaArbiter(const json& schema, const std::string& whose)
    : impl_(std::make_unique<Impl>()) {
  try {
    impl_->has_pattern = check_patterns(schema);
    valijson::SchemaParser parser;
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), impl_->schema);
  } catch (const std::exception& failure) {  // of valijson or std::regex
    throw Error("plugin.bad_schema",
                "the option schema of " + whose + " is not a JSON Schema: " + failure.what() +
                    "; this is an error of the plugin, tell its author");
  }
}

SchemaArbiter::~SchemaArbiter() = default;

void SchemaArbiter::check(const json& value,
                          const std::string& pointer,
                          const PlaceMap& places,
                          ProblemList& problems) const {
  if (impl_->has_pattern && longest_text(value) > kMaxPatternBytes) {
    problems.push_back(
        {.id = "recipe.out_of_range",
         .place = places.at(pointer),
         .pointer = pointer,
         .what = "a string in it is too long",
         .expected = formatted("at most {} bytes where patterns apply", kMaxPatternBytes)});
    return;
  }
  valijson::Validator validator;
  valijson::ValidationResults results;
  std::string why = "no reason given";
  std::string where = pointer;
  try {
    const valijson::adapters::NlohmannJsonAdapter target(value);
    if (validator.validate(impl_->schema, target, &results)) {
      return;
    }
    std::size_t deepest = 0;
    for (const auto& error : results) {
      if (error.context.size() >
          deepest) {  // the first of the innermost errors; the others follow from it
        deepest = error.context.size();
        where = pointer_of(error.context, pointer);
        why = error.description;
      }
    }
  } catch (const std::exception& failure) {
    why = failure.what();
  }
  const json* const culprit =
      find_at(value, std::string_view(where).substr(std::min(where.size(), pointer.size())));
  problems.push_back({.id = "recipe.rejected",
                      .place = places.at(where),
                      .pointer = where,
                      .what = "rejected by the component's schema",
                      .found = culprit != nullptr ? brief_value(*culprit) : "",
                      .note = why});
}

}  // namespace tenon
