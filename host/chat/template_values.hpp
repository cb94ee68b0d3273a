// SPDX-License-Identifier: Apache-2.0
//
// Values of the template engine with the meaning that they have in Python: text of a value, JSON,
// equality, code points. Each part of a string knows whether it came from the input of the template
// or from the template; the functions keep that byte by byte.
// Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <jinja/value.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

using TemplateValue = jinja::value;
using TemplateString = jinja::string;

// Maximum nesting of the values that a template makes, and of JSON that it is given.
inline constexpr size_t kMaxTemplateDepth = 64;

// Whether strings of a value came from the input or from the template.
enum class Origin { kTemplate, kInput };

// Errors   std::runtime_error for a number beyond 64 bits, or nesting beyond kMaxTemplateDepth
TemplateValue value_of_json(const nlohmann::ordered_json& json, Origin origin);

// A message of the input. python_text() of content that is a list of parts is an error. Arguments
// of calls that are JSON text are a text, but json_text() of them is that of the object.
//
// Errors   as value_of_json
TemplateValue value_of_message(const nlohmann::ordered_json& message);

TemplateValue value_of_text(TemplateString text);
TemplateValue value_of_text(std::string text);

// What `str(value)` gives in Python; undefined is "".
TemplateString python_text(const TemplateValue& value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<int64_t> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// What `json.dumps` gives in Python.
//
// Errors   std::runtime_error for undefined values and functions
TemplateString json_text(const TemplateValue& value, const JsonStyle& style);

// Python's `==`, and `<` of numbers and of strings.
//
// Errors   std::runtime_error: `<` of other types
bool are_equal(const TemplateValue& a, const TemplateValue& b);
bool is_less(const TemplateValue& a, const TemplateValue& b);
// Python's `needle in haystack`.
//
// Errors   std::runtime_error for a haystack that has no members
bool is_in(const TemplateValue& needle, const TemplateValue& haystack);
// Whether the value counts as true in a condition.
bool is_true(const TemplateValue& value);

// Bytes [begin, end) of a string.
TemplateString part_of(const TemplateString& text, size_t begin, size_t end);
void append_to(TemplateString& text, const TemplateString& more);
void append_to(TemplateString& text, std::string_view more, Origin origin);

// Memory that a value takes, without that of its members.
size_t shallow_size(const TemplateValue& value);
// Checks that a container does not contain itself and is not nested too deep: the engine would not
// survive it.
//
// Errors   std::runtime_error
void check_nesting(const TemplateValue& value);

// "a string", "a list", for messages.
std::string type_words(const TemplateValue& value);

}  // namespace tenon
