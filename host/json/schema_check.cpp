// SPDX-License-Identifier: Apache-2.0

#include "host/json/schema_check.hpp"

#include "host/json/json_path.hpp"
#include "host/json/one_or_named.hpp"
#include "host/json/schema_keyword.hpp"
#include "host/json/schema_words.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/nearest_name.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

bool is_integral(const json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>() &&
          std::abs(value.get<double>()) < 9007199254740992.0);  // 2^53: exact as a double
}

bool has_type(const json& value, std::string_view type) {
  return (type == "integer" && is_integral(value)) || (type == "number" && value.is_number()) ||
         (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
         (type == "array" && value.is_array()) || (type == "object" && value.is_object()) ||
         (type == "null" && value.is_null());
}

bool fits_type(const json& value, const json& type) {
  if (type.is_string()) {
    return has_type(value, type.get_ref<const std::string&>());
  }
  return std::ranges::any_of(type, [&value](const json& one) {
    return one.is_string() && has_type(value, one.get_ref<const std::string&>());
  });
}

// Exact if both are integers: a double cannot distinguish 2^63 from 2^63 - 1.
std::partial_ordering compare_numbers(const json& a, const json& b) {
  if (a.is_number_float() || b.is_number_float()) {
    return a.get<double>() <=> b.get<double>();
  }
  const bool a_is_negative = !a.is_number_unsigned() && a.get<std::int64_t>() < 0;
  const bool b_is_negative = !b.is_number_unsigned() && b.get<std::int64_t>() < 0;
  if (a_is_negative || b_is_negative) {
    if (a_is_negative && b_is_negative) {
      return a.get<std::int64_t>() <=> b.get<std::int64_t>();
    }
    return a_is_negative ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  return a.get<std::uint64_t>() <=> b.get<std::uint64_t>();
}

std::size_t num_characters(const std::string& utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char c) { return (c & '\xc0') != '\x80'; }));
}

bool contains(const json& list, const json& value) {
  return std::ranges::find(list, value) != list.end();
}

std::vector<std::string> strings_of(const json& list) {
  std::vector<std::string> strings;
  for (const json& entry : list) {
    if (entry.is_string()) {
      strings.push_back(entry.get<std::string>());
    }
  }
  return strings;
}

class Walk {
 public:
  Walk(const PlaceMap& places, ProblemList& problems) : places_(places), problems_(problems) {}

  void check(const json& value, const json& schema, const std::string& pointer) {
    if (problems_.is_full()) {
      return;
    }
    if (schema.is_boolean() && !schema.get<bool>()) {
      add("recipe.bad_value", pointer, "no value is allowed here", "", brief_value(value));
      return;
    }
    // A reference overrides all other keywords next to it (draft 7); the arbiter follows it.
    if (!schema.is_object() || schema.contains("$ref") || is_unavailable(value, schema, pointer)) {
      return;
    }
    const json* const component = find_keyword(schema, "x-tenon-component", KeywordType::kString);
    const json* type = find_keyword(schema, "type");
    type = type != nullptr && (type->is_string() || type->is_array()) ? type : nullptr;
    if (component != nullptr && !(value.is_null() && type != nullptr && fits_type(value, *type))) {
      check_component(value, schema, pointer);
      return;
    }
    if (type != nullptr && !fits_type(value, *type)) {
      wrong_type(value, schema, pointer);
      return;  // the other keywords only apply to values of the right type
    }
    check_choice(value, schema, pointer);
    if (value.is_number()) {
      check_number(value, schema, pointer);
    } else if (value.is_string()) {
      check_string(value, schema, pointer);
    } else if (value.is_array()) {
      check_list(value, schema, pointer);
    } else if (value.is_object()) {
      check_object(value, schema, pointer);
      check_form(value, form_of_object(value, schema), pointer);
    }
    check_variants(value, schema, pointer);
    if (const json* const all = find_keyword(schema, "allOf", KeywordType::kArray)) {
      for (const json& one : *all) {
        check(value, one, pointer);
      }
    }
  }

 private:
  void add(const char* id,
           const std::string& pointer,
           std::string what,
           std::string expected,
           std::string found,
           std::string hint = {},
           std::string note = {}) {
    problems_.push_back({.id = id,
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = std::move(what),
                         .expected = std::move(expected),
                         .found = std::move(found),
                         .hint = std::move(hint),
                         .note = std::move(note)});
  }

  void wrong_type(const json& value, const json& schema, const std::string& pointer) {
    const Place& place = places_.at(pointer);
    std::string note;
    if (value.is_string() && !place.env.empty()) {
      note = "an ${ENV:...} is always a string; give a number or a list with --set";
    } else if (value.is_string() && place.origin == PlaceOrigin::kSet) {
      note = "a --set value that is not JSON is taken as a string";
    }
    add("recipe.wrong_type",
        pointer,
        "wrong type",
        expected_words(schema),
        std::string(type_word(value)) + " " + brief_value(value),
        "",
        note);
  }

  // True if no other keyword needs a check: the value is rejected, or has x-tenon-unavailable.
  bool is_unavailable(const json& value, const json& schema, const std::string& pointer) {
    if (const json* const mark =
            find_keyword(schema, "x-tenon-unavailable", KeywordType::kObject)) {
      if (!contains(mark->value("unless", json::array()), value)) {
        add("recipe.not_available",
            pointer,
            "this release does not have " + mark->value("what", std::string("this part")) + " yet",
            "",
            brief_value(value),
            "",
            mark->value(
                "instead",
                std::string("remove the key; nothing that is asked for is silently ignored")));
      }
      return true;
    }
    const json* const values =
        find_keyword(schema, "x-tenon-unavailable-values", KeywordType::kArray);
    if (values != nullptr && contains(*values, value)) {
      add("recipe.not_available",
          pointer,
          "this release does not have " + brief_value(value) + " yet",
          expected_words(schema),
          brief_value(value));
      return true;
    }
    return false;
  }

  void check_component(const json& value, const json& schema, const std::string& pointer) {
    if (!value.is_object()) {
      add("recipe.wrong_type",
          pointer,
          "wrong type",
          expected_words(schema),
          std::string(type_word(value)) + " " + brief_value(value),
          value.is_string() ? "write {\"type\": " + brief_value(value) + "}" : "");
      return;
    }
    static const json by_type = {
        {"type", "object"},
        {"properties",
         {{"type", {{"type", "string"}, {"minLength", 1}}}, {"options", {{"type", "object"}}}}},
        {"required", json::array({"type"})},
        {"additionalProperties", false}};
    static const json by_ref = {{"type", "object"},
                                {"properties", {{"ref", {{"type", "string"}, {"minLength", 1}}}}},
                                {"required", json::array({"ref"})},
                                {"additionalProperties", false}};
    if (value.contains("ref") && value.contains("type")) {
      add("recipe.contradiction",
          pointer,
          "both \"type\" and \"ref\"",
          expected_words(schema),
          brief_value(value));
      return;
    }
    check(value, value.contains("ref") ? by_ref : by_type, pointer);
  }

  void check_choice(const json& value, const json& schema, const std::string& pointer) {
    const json* const values = find_keyword(schema, "enum", KeywordType::kArray);
    if (values != nullptr && !contains(*values, value)) {
      const json* const name =
          value.is_string()
              ? new_name(schema, "x-tenon-renamed-values", value.get_ref<const std::string&>())
              : nullptr;
      if (name != nullptr) {
        add("recipe.bad_value",
            pointer,
            "not an allowed value",
            expected_words(schema),
            brief_value(value),
            "",
            "this release calls it " + brief_value(*name));
        return;
      }
      add("recipe.bad_value",
          pointer,
          "not an allowed value",
          expected_words(schema),
          brief_value(value),
          value.is_string() ? did_you_mean(value.get_ref<const std::string&>(), strings_of(*values))
                            : "");
    }
    const json* const only = find_keyword(schema, "const");
    if (only != nullptr && *only != value) {
      add("recipe.bad_value",
          pointer,
          "not the only value allowed",
          brief_value(*only),
          brief_value(value));
    }
  }

  // Returns the current name of a key or value that an earlier release called `old`, or null.
  static const json* new_name(const json& schema, const char* keyword, const std::string& old) {
    const json* const names = find_keyword(schema, keyword, KeywordType::kObject);
    return names != nullptr ? find_keyword(*names, old.c_str(), KeywordType::kString) : nullptr;
  }

  void check_number(const json& value, const json& schema, const std::string& pointer) {
    const auto breaks = [&](const char* name, auto is_broken) {
      const json* const limit = find_keyword(schema, name, KeywordType::kNumber);
      return limit != nullptr && is_broken(compare_numbers(value, *limit));
    };
    if (breaks("minimum", std::is_lt) || breaks("maximum", std::is_gt) ||
        breaks("exclusiveMinimum", std::is_lteq) || breaks("exclusiveMaximum", std::is_gteq)) {
      add("recipe.out_of_range",
          pointer,
          "out of range",
          expected_words(schema),
          brief_value(value));
    }
  }

  // True if a length or number of entries violates one of the two keywords.
  static bool is_outside(const json& schema,
                         const char* least,
                         const char* most,
                         std::size_t size) {
    const json* const minimum = find_keyword(schema, least, KeywordType::kNumber);
    const json* const maximum = find_keyword(schema, most, KeywordType::kNumber);
    return (minimum != nullptr && std::is_lt(compare_numbers(size, *minimum))) ||
           (maximum != nullptr && std::is_gt(compare_numbers(size, *maximum)));
  }

  void check_string(const json& value, const json& schema, const std::string& pointer) {
    const auto& text = value.get_ref<const std::string&>();
    if (is_outside(schema, "minLength", "maxLength", num_characters(text))) {
      add("recipe.out_of_range",
          pointer,
          text.empty() ? "empty string" : "wrong length",
          expected_words(schema),
          brief_value(value));
    }
    const json* const pattern = find_keyword(schema, "pattern", KeywordType::kString);
    if (pattern == nullptr) {
      return;
    }
    if (text.size() > kMaxPatternBytes) {
      add("recipe.out_of_range",
          pointer,
          "too long",
          formatted("at most {} bytes where a pattern applies", kMaxPatternBytes),
          brief_value(value));
    } else if (!std::regex_search(text, regex_of(*pattern))) {
      add("recipe.bad_value",
          pointer,
          "not of the form asked for",
          expected_words(schema),
          brief_value(value));
    }
  }

  // Compiles a pattern once for all entries of a list. `pattern` is part of the schema.
  const std::regex& regex_of(const json& pattern) {
    auto [known, is_new] = regexes_.try_emplace(&pattern);
    if (is_new) {
      known->second = std::regex(pattern.get_ref<const std::string&>());
    }
    return known->second;
  }

  void check_list(const json& value, const json& schema, const std::string& pointer) {
    if (is_outside(schema, "minItems", "maxItems", value.size())) {
      add("recipe.out_of_range",
          pointer,
          "wrong number of entries",
          expected_words(schema),
          counted(value.size(), "entry", "entries"));
    }
    if (const json* const items = find_keyword(schema, "items");
        items != nullptr && !items->is_array()) {  // the arbiter checks the tuple form (a list)
      for (std::size_t i = 0; i < value.size() && !problems_.is_full(); ++i) {
        check(value[i], *items, join_pointer(pointer, i));
      }
    }
    const json* const is_unique = find_keyword(schema, "uniqueItems", KeywordType::kBoolean);
    if (is_unique != nullptr && is_unique->get<bool>()) {
      check_unique(value, pointer);
    }
  }

  void check_unique(const json& list, const std::string& pointer) {
    const auto is_less = [](const json* a, const json* b) { return *a < *b; };
    std::map<const json*, std::size_t, decltype(is_less)> first_of(is_less);
    for (std::size_t i = 0; i < list.size() && !problems_.is_full(); ++i) {
      const auto [first, is_new] = first_of.emplace(&list[i], i);
      if (!is_new) {
        add("recipe.bad_value",
            join_pointer(pointer, i),
            formatted("the same as entry {}", first->second),
            "each entry once",
            brief_value(list[i]));
      }
    }
  }

  void check_object(const json& value, const json& schema, const std::string& pointer) {
    const json* const properties = find_keyword(schema, "properties", KeywordType::kObject);
    const json* const required = find_keyword(schema, "required", KeywordType::kArray);
    const json* const others = find_keyword(schema, "additionalProperties");
    const auto property = [properties](const std::string& key) {
      return properties != nullptr ? find_keyword(*properties, key.c_str()) : nullptr;
    };
    for (const auto& [key, child] : value.items()) {
      if (problems_.is_full()) {
        return;
      }
      const std::string at = join_pointer(pointer, key);
      if (const json* const described = property(key)) {
        check(child, *described, at);
      } else if (const json* const name = new_name(schema, "x-tenon-renamed", key)) {
        add("recipe.unknown_key",
            at,
            "unknown key",
            brief_value(*name),
            brief_value(key),
            "",
            "this release calls it " + brief_value(*name));
      } else if (others != nullptr && !schema.contains("patternProperties")) {
        if (others->is_boolean() && !others->get<bool>()) {
          unknown_key(
              key,
              at,
              properties != nullptr ? available_keys(*properties) : std::vector<std::string>());
        } else {
          check(child, *others, at);
        }
      }
    }
    if (const json* const names = find_keyword(schema, "propertyNames", KeywordType::kObject)) {
      check_names(value, *names, pointer);
    }
    for (const std::string& key :
         required != nullptr ? strings_of(*required) : std::vector<std::string>()) {
      const json* const described = property(key);
      const bool has_default =
          described != nullptr && described->is_object() && described->contains("default");
      if (value.contains(key) || has_default) {
        continue;
      }
      const json* const meaning =
          described != nullptr && described->is_object()
              ? find_keyword(*described, "description", KeywordType::kString)
              : nullptr;
      add("recipe.missing_key",
          join_pointer(pointer, key),
          "missing key",
          described != nullptr ? expected_words(*described) : "any value",
          "",
          "",
          meaning != nullptr ? meaning->get<std::string>() : "");
      problems_.back().place = places_.written_at(pointer);
    }
  }

  // Checks one object, or each of several by name.
  void check_form(const json& value, const FormOfObject& form, const std::string& pointer) {
    if (form.one == nullptr) {
      return;
    }
    if (form.is_one) {
      check(value, *form.one, pointer);
      return;
    }
    for (const auto& [name, child] : value.items()) {
      check(child, *form.one, join_pointer(pointer, name));
    }
    if (form.names != nullptr) {
      check_names(value, *form.names, pointer);
    }
  }

  // Checks the names of an object's keys if the schema says in words what they must be. The arbiter
  // checks other demands on names.
  void check_names(const json& object, const json& names, const std::string& pointer) {
    const json* const pattern = find_keyword(names, "pattern", KeywordType::kString);
    const json* const words = find_keyword(names, "description", KeywordType::kString);
    if (pattern == nullptr || words == nullptr) {
      return;
    }
    const json* const title = find_keyword(names, "title", KeywordType::kString);
    for (const auto& [name, child] : object.items()) {
      if (name.size() > kMaxPatternBytes || !std::regex_search(name, regex_of(*pattern))) {
        add("recipe.bad_value",
            join_pointer(pointer, name),
            "invalid " + (title != nullptr ? title->get<std::string>() : std::string("name")),
            words->get<std::string>(),
            brief_value(name));
      }
    }
  }

  // Returns the keys that a user may write, without those that this release rejects.
  static std::vector<std::string> available_keys(const json& properties) {
    std::vector<std::string> keys;
    for (const auto& [key, described] : properties.items()) {
      if (!described.is_object() || !described.contains("x-tenon-unavailable")) {
        keys.push_back(key);
      }
    }
    return keys;
  }

  void unknown_key(const std::string& key,
                   const std::string& pointer,
                   const std::vector<std::string>& keys) {
    add("recipe.unknown_key",
        pointer,
        "unknown key",
        keys.empty() ? "no keys at all" : "one of: " + name_list(keys),
        brief_value(key),
        did_you_mean(key, keys));
  }

  void check_variants(const json& value, const json& schema, const std::string& pointer) {
    for (const char* const name : {"oneOf", "anyOf"}) {
      const json* const variants = find_keyword(schema, name, KeywordType::kArray);
      if (variants == nullptr) {
        continue;
      }
      std::size_t num_fitting = 0;
      std::vector<ProblemList> attempts;
      for (const json& variant : *variants) {
        ProblemList attempt;
        Walk(places_, attempt).check(value, variant, pointer);
        num_fitting += attempt.empty() ? 1 : 0;
        attempts.push_back(std::move(attempt));
      }
      if (num_fitting > 1 && std::string_view(name) == "oneOf") {
        add("recipe.no_variant",
            pointer,
            "fits several forms where it must fit one",
            expected_words(schema),
            brief_value(value));
      }
      if (num_fitting == 0) {
        no_variant(value, schema, pointer, std::move(attempts));
      }
    }
  }

  // If exactly one variant has the value's type, reports the problems of that variant, which are
  // more specific than "fits none".
  void no_variant(const json& value,
                  const json& schema,
                  const std::string& pointer,
                  std::vector<ProblemList> attempts) {
    std::optional<std::size_t> meant;
    std::size_t num_of_type = 0;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      const bool is_of_type =
          std::ranges::none_of(attempts[i].kept(), [&pointer](const Problem& problem) {
            return problem.pointer == pointer && problem.id == "recipe.wrong_type";
          });
      if (is_of_type) {
        ++num_of_type;
        meant = i;
      }
    }
    if (num_of_type == 1) {
      problems_.append(std::move(attempts[*meant]));
      return;
    }
    const bool is_type_wrong = num_of_type == 0;
    add(is_type_wrong ? "recipe.wrong_type" : "recipe.no_variant",
        pointer,
        is_type_wrong ? "wrong type" : "fits none of the forms allowed",
        expected_words(schema),
        std::string(type_word(value)) + " " + brief_value(value));
  }

  const PlaceMap& places_;
  ProblemList& problems_;
  std::map<const json*, std::regex> regexes_;
};

}  // namespace

void check_schema(const json& value,
                  const json& schema,
                  const std::string& pointer,
                  const PlaceMap& places,
                  ProblemList& problems) {
  Walk(places, problems).check(value, schema, pointer);
}

}  // namespace tenon
