// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_values.hpp"

#include "host/chat/code_points.hpp"
#include "host/chat/template_budget.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tenon {
namespace {

using jinja::cast_val;
using jinja::is_val;
using jinja::mk_val;

constexpr char kHex[] = "0123456789abcdef";
bool is_whole(const TemplateValue& value) {
  return is_val<jinja::value_int>(value) || is_val<jinja::value_bool>(value);
}
bool is_number(const TemplateValue& value) {
  return is_whole(value) || is_val<jinja::value_float>(value);
}
double number_of(const TemplateValue& value) {
  return is_val<jinja::value_bool>(value) ? static_cast<double>(value->val_int) : value->as_float();
}

// A null of the input. It is None, but must not become the word.
struct InputNone : jinja::value_none_t {};

// The parts of a message's content. Printed as a whole, they would be a list of Python.
struct ContentParts : jinja::value_array_t {
  using jinja::value_array_t::value_array_t;
};

// The arguments of a call as JSON text. Where a template writes JSON, they are the object, as in
// programs that serve models, which never write this text in quotes.
struct ArgumentsText : jinja::value_string_t {
  using jinja::value_string_t::value_string_t;
};

TemplateValue value_at_depth(const nlohmann::ordered_json& json, Origin origin, size_t depth) {
  if (depth > kMaxTemplateDepth) {
    throw std::runtime_error(formatted("the JSON is nested more than {} deep", kMaxTemplateDepth));
  }
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return mk_val<jinja::value_bool>(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw std::runtime_error("the number " + json.dump() + " does not fit into 64 bits");
      }
      [[fallthrough]];
    case nlohmann::ordered_json::value_t::number_integer:
      return mk_val<jinja::value_int>(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return mk_val<jinja::value_float>(json.get<double>());
    case nlohmann::ordered_json::value_t::string: {
      auto text = mk_val<jinja::value_string>(json.get_ref<const std::string&>());
      if (origin == Origin::kInput) {
        text->mark_input();
      }
      return text;
    }
    case nlohmann::ordered_json::value_t::array: {
      auto list = mk_val<jinja::value_array>();
      for (const auto& item : json) {
        list->push_back(value_at_depth(item, origin, depth + 1));
      }
      return list;
    }
    case nlohmann::ordered_json::value_t::object: {
      auto object = mk_val<jinja::value_object>();
      for (const auto& [key, item] : json.items()) {
        auto name = mk_val<jinja::value_string>(key);
        if (origin == Origin::kInput) {
          name->mark_input();
        }
        object->insert(TemplateValue(name), value_at_depth(item, origin, depth + 1));
      }
      return object;
    }
    default:
      return origin == Origin::kInput ? TemplateValue(std::make_shared<InputNone>())
                                      : TemplateValue(mk_val<jinja::value_none>());
  }
}

// repr() of a Python float: the shortest digits that give the number back.
std::string float_text(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  if (std::isinf(number)) {
    return number < 0 ? "-inf" : "inf";
  }
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(),
                                 buffer.data() + buffer.size(),
                                 std::abs(number),
                                 std::chars_format::scientific);
  const std::string_view written(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = written.find('e');
  std::string digits(written.substr(0, 1));
  if (e > 2) {
    digits += written.substr(2, e - 2);
  }
  const int exponent = std::stoi(std::string(written.substr(e + 1)));
  std::string text = std::signbit(number) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    text += digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "");
    const std::string size = formatted("{}", std::abs(exponent));
    return text + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) {
    return text + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return text + digits + std::string(whole - digits.size(), '0') + ".0";
  }
  return text + digits.substr(0, whole) + "." + digits.substr(whole);
}

// Appends repr() of a Python string.
void append_quoted(TemplateString& out, const TemplateString& text) {
  const std::string flat = text.str();
  const char quote =
      flat.find('\'') != std::string::npos && flat.find('"') == std::string::npos ? '"' : '\'';
  append_to(out, std::string(1, quote), Origin::kTemplate);
  for (const jinja::string_part& part : text.parts) {
    std::string escaped;
    for (const char c : part.val) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == quote || c == '\\') {
        escaped += {'\\', c};
      } else if (c == '\n') {
        escaped += "\\n";
      } else if (c == '\r') {
        escaped += "\\r";
      } else if (c == '\t') {
        escaped += "\\t";
      } else if (byte < 0x20 || byte == 0x7f) {
        escaped += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      } else {
        escaped += c;
      }
    }
    append_to(out, escaped, part.is_input ? Origin::kInput : Origin::kTemplate);
  }
  append_to(out, std::string(1, quote), Origin::kTemplate);
}

void append_python(TemplateString& out, const TemplateValue& value, bool is_inside, size_t depth);

void append_python_list(TemplateString& out,
                        const std::vector<TemplateValue>& items,
                        bool is_tuple,
                        size_t depth) {
  append_to(out, is_tuple ? "(" : "[", Origin::kTemplate);
  for (size_t i = 0; i < items.size(); ++i) {
    append_to(out, i == 0 ? "" : ", ", Origin::kTemplate);
    append_python(out, items[i], true, depth + 1);
  }
  append_to(out, !is_tuple ? "]" : items.size() == 1 ? ",)" : ")", Origin::kTemplate);
}

void append_python(TemplateString& out, const TemplateValue& value, bool is_inside, size_t depth) {
  if (depth > 2 * kMaxTemplateDepth) {
    throw std::runtime_error("a value is nested too deep");
  }
  if (is_val<jinja::value_string>(value)) {
    is_inside ? append_quoted(out, value->val_str) : append_to(out, value->val_str);
  } else if (value->is_none()) {
    append_to(out, "None", Origin::kTemplate);
  } else if (value->is_undefined()) {
    append_to(out, is_inside ? "Undefined" : "", Origin::kTemplate);
  } else if (is_val<jinja::value_bool>(value)) {
    append_to(out, value->val_int != 0 ? "True" : "False", Origin::kTemplate);
  } else if (is_val<jinja::value_int>(value)) {
    append_to(out, formatted("{}", value->val_int), Origin::kTemplate);
  } else if (is_val<jinja::value_float>(value)) {
    append_to(out, float_text(value->val_flt), Origin::kTemplate);
  } else if (is_val<jinja::value_array>(value)) {
    append_python_list(out, value->as_array(), is_val<jinja::value_tuple>(value), depth);
  } else if (is_val<jinja::value_object>(value)) {
    append_to(out, "{", Origin::kTemplate);
    bool is_first = true;
    for (const auto& [key, item] : value->as_ordered_object()) {
      append_to(out, is_first ? "" : ", ", Origin::kTemplate);
      is_first = false;
      append_python(out, key, true, depth + 1);
      append_to(out, ": ", Origin::kTemplate);
      append_python(out, item, true, depth + 1);
    }
    append_to(out, "}", Origin::kTemplate);
  } else {
    throw std::runtime_error("the template prints " + type_words(value));
  }
}

// ---- JSON ----

void append_unicode_escape(std::string& out, uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += kHex[unit >> shift & 15];
  }
}

std::string json_escaped(std::string_view text, bool ensure_ascii) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 && ensure_ascii) {
      const size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      const uint32_t point = code_point_of(text.substr(i, size));
      if (point >= 0x10000) {
        append_unicode_escape(out, 0xd800 + ((point - 0x10000) >> 10));
        append_unicode_escape(out, 0xdc00 + ((point - 0x10000) & 0x3ff));
      } else {
        append_unicode_escape(out, point);
      }
      i += size;
      continue;
    }
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (byte < 0x20) {
          append_unicode_escape(out, byte);
        } else {
          out += text[i];
        }
    }
    ++i;
  }
  return out;
}

void append_json_string(TemplateString& out, const TemplateString& text, const JsonStyle& style) {
  append_to(out, "\"", Origin::kTemplate);
  for (const jinja::string_part& part : text.parts) {
    append_to(out,
              json_escaped(part.val, style.ensure_ascii),
              part.is_input ? Origin::kInput : Origin::kTemplate);
  }
  append_to(out, "\"", Origin::kTemplate);
}

void append_json(TemplateString& out,
                 const TemplateValue& value,
                 const JsonStyle& style,
                 size_t depth);

// Calls item(i) for the members of a list or an object, and writes what stands between them.
template <class Item>
void append_json_members(TemplateString& out,
                         size_t n,
                         const char* brackets,
                         const JsonStyle& style,
                         size_t depth,
                         Item&& item) {
  append_to(out, std::string_view(brackets, 1), Origin::kTemplate);
  const auto new_line = [&](size_t level) {
    if (style.indent) {
      const auto width = static_cast<size_t>(std::clamp<int64_t>(*style.indent, 0, 64));
      append_to(out, "\n" + std::string(width * level, ' '), Origin::kTemplate);
    }
  };
  for (size_t i = 0; i < n; ++i) {
    append_to(out, i == 0 ? "" : style.item_separator, Origin::kTemplate);
    new_line(depth + 1);
    item(i);
  }
  if (n > 0) {
    new_line(depth);
  }
  append_to(out, std::string_view(brackets + 1, 1), Origin::kTemplate);
}

void append_json(TemplateString& out,
                 const TemplateValue& value,
                 const JsonStyle& style,
                 size_t depth) {
  if (depth > 2 * kMaxTemplateDepth) {
    throw std::runtime_error("a value is nested too deep");
  }
  if (value->is_none()) {
    append_to(out, "null", Origin::kTemplate);
  } else if (is_val<jinja::value_bool>(value)) {
    append_to(out, value->val_int != 0 ? "true" : "false", Origin::kTemplate);
  } else if (is_val<jinja::value_int>(value)) {
    append_to(out, formatted("{}", value->val_int), Origin::kTemplate);
  } else if (is_val<jinja::value_float>(value)) {
    const double number = value->val_flt;
    append_to(out,
              std::isnan(number)   ? "NaN"
              : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                   : float_text(number),
              Origin::kTemplate);
  } else if (dynamic_cast<const ArgumentsText*>(value.get()) != nullptr) {
    const auto object = nlohmann::ordered_json::parse(value->val_str.str());
    append_json(out, value_of_json(object, Origin::kInput), style, depth);
  } else if (is_val<jinja::value_string>(value)) {
    append_json_string(out, value->val_str, style);
  } else if (is_val<jinja::value_array>(value)) {
    const auto& items = value->as_array();
    append_json_members(out, items.size(), "[]", style, depth, [&](size_t i) {
      append_json(out, items[i], style, depth + 1);
    });
  } else if (is_val<jinja::value_object>(value)) {
    std::vector<std::pair<TemplateValue, TemplateValue>> items = value->as_ordered_object();
    if (style.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
        return is_less(a.first, b.first);
      });
    }
    append_json_members(out, items.size(), "{}", style, depth, [&](size_t i) {
      const TemplateValue& key = items[i].first;
      if (is_val<jinja::value_string>(key)) {
        append_json_string(out, key->val_str, style);
      } else {
        append_to(out, "\"", Origin::kTemplate);
        append_json(out, key, style, depth + 1);
        append_to(out, "\"", Origin::kTemplate);
      }
      append_to(out, style.key_separator, Origin::kTemplate);
      append_json(out, items[i].second, style, depth + 1);
    });
  } else {
    throw std::runtime_error("tojson: " + type_words(value) + " is not JSON");
  }
}

// What it costs to read a text once.
size_t text_work(const TemplateValue& value) {
  return value->val_str.length() / 16 + value->val_str.parts.size();
}

}  // namespace

TemplateValue value_of_json(const nlohmann::ordered_json& json, Origin origin) {
  return value_at_depth(json, origin, 0);
}

TemplateValue value_of_message(const nlohmann::ordered_json& message) {
  TemplateValue value = value_of_json(message, Origin::kInput);
  const auto set = [](const TemplateValue& object, const char* key, TemplateValue item) {
    object->insert(mk_val<jinja::value_string>(std::string(key)), std::move(item));
  };
  if (!message.is_object()) {
    return value;
  }
  if (const auto content = message.find("content");
      content != message.end() && content->is_array()) {
    set(value, "content", std::make_shared<ContentParts>(value->at("content")->as_array()));
  }
  const auto calls = message.find("tool_calls");
  const size_t num_calls = calls != message.end() && calls->is_array() ? calls->size() : 0;
  for (size_t i = 0; i < num_calls; ++i) {
    const auto& call = (*calls)[i];
    const nlohmann::ordered_json::json_pointer at("/function/arguments");
    if (!call.is_object() || !call.contains(at) || !call.at(at).is_string()) {
      continue;
    }
    const auto& text = call.at(at).get_ref<const std::string&>();
    if (nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false).is_object()) {
      auto marked = std::make_shared<ArgumentsText>(text);
      marked->mark_input();
      set(value->at("tool_calls")->as_array()[i]->at("function"), "arguments", marked);
    }
  }
  return value;
}

TemplateValue value_of_text(TemplateString text) {
  return mk_val<jinja::value_string>(std::move(text));
}
TemplateValue value_of_text(std::string text) {
  return mk_val<jinja::value_string>(std::move(text));
}

TemplateString python_text(const TemplateValue& value) {
  if (is_val<jinja::value_string>(value)) {
    return value->val_str;
  }
  if (dynamic_cast<const InputNone*>(value.get()) != nullptr) {
    throw std::runtime_error(
        "the template prints a null of a message or tool as the word None; write \"\" instead of "
        "null, or leave the key out");
  }
  if (dynamic_cast<const ContentParts*>(value.get()) != nullptr) {
    throw std::runtime_error(
        "the template prints content that is a list of parts as Python prints a list; write "
        "\"content\" as a text, or use a template that reads parts");
  }
  TemplateString out;
  append_python(out, value, false, 0);
  return out;
}

TemplateString json_text(const TemplateValue& value, const JsonStyle& style) {
  TemplateString out;
  append_json(out, value, style, 0);
  return out;
}

bool are_equal(const TemplateValue& a, const TemplateValue& b) {
  TemplateBudget::work_current(1);
  if (a == b) {
    return true;
  }
  if (is_number(a) && is_number(b)) {
    return is_whole(a) && is_whole(b) ? a->val_int == b->val_int : number_of(a) == number_of(b);
  }
  if (is_val<jinja::value_string>(a) && is_val<jinja::value_string>(b)) {
    TemplateBudget::work_current(text_work(a) + text_work(b));
    return a->val_str.str() == b->val_str.str();
  }
  if (is_val<jinja::value_array>(a) && is_val<jinja::value_array>(b)) {
    return is_val<jinja::value_tuple>(a) == is_val<jinja::value_tuple>(b) &&
           std::ranges::equal(a->as_array(), b->as_array(), are_equal);
  }
  if (is_val<jinja::value_object>(a) && is_val<jinja::value_object>(b)) {
    const auto& items = a->as_ordered_object();
    return items.size() == b->as_ordered_object().size() &&
           std::ranges::all_of(items, [&](const auto& item) {
             return b->has_key(item.first) && are_equal(item.second, b->at(item.first));
           });
  }
  return (a->is_none() && b->is_none()) || (a->is_undefined() && b->is_undefined());
}

bool is_less(const TemplateValue& a, const TemplateValue& b) {
  TemplateBudget::work_current(1);
  if (is_number(a) && is_number(b)) {
    return is_whole(a) && is_whole(b) ? a->val_int < b->val_int : number_of(a) < number_of(b);
  }
  if (is_val<jinja::value_string>(a) && is_val<jinja::value_string>(b)) {
    TemplateBudget::work_current(text_work(a) + text_work(b));
    return a->val_str.str() < b->val_str.str();
  }
  throw std::runtime_error("cannot compare " + type_words(a) + " with " + type_words(b));
}

bool is_in(const TemplateValue& needle, const TemplateValue& haystack) {
  if (haystack->is_undefined()) {
    return false;
  }
  if (is_val<jinja::value_array>(haystack)) {
    return std::ranges::any_of(haystack->as_array(),
                               [&](const auto& item) { return are_equal(needle, item); });
  }
  if (is_val<jinja::value_object>(haystack)) {
    return haystack->has_key(needle);
  }
  if (is_val<jinja::value_string>(haystack) && is_val<jinja::value_string>(needle)) {
    TemplateBudget::work_current(text_work(haystack) + text_work(needle));
    return haystack->val_str.str().find(needle->val_str.str()) != std::string::npos;
  }
  throw std::runtime_error("`in` cannot look for " + type_words(needle) + " in " +
                           type_words(haystack));
}

bool is_true(const TemplateValue& value) {
  if (is_val<jinja::value_func>(value)) {
    return true;
  }
  return value->as_bool();
}

TemplateString part_of(const TemplateString& text, size_t begin, size_t end) {
  TemplateString out;
  size_t at = 0;
  for (const jinja::string_part& part : text.parts) {
    const size_t from = std::max(begin, at);
    const size_t to = std::min(end, at + part.val.size());
    if (from < to) {
      out.parts.push_back({part.is_input, part.val.substr(from - at, to - from)});
    }
    at += part.val.size();
  }
  return out;
}

void append_to(TemplateString& text, const TemplateString& more) {
  for (const jinja::string_part& part : more.parts) {
    append_to(text, part.val, part.is_input ? Origin::kInput : Origin::kTemplate);
  }
}

void append_to(TemplateString& text, std::string_view more, Origin origin) {
  if (more.empty()) {
    return;
  }
  TemplateBudget::charge_current(more.size());
  const bool is_input = origin == Origin::kInput;
  if (!text.parts.empty() && text.parts.back().is_input == is_input) {
    text.parts.back().val += more;
  } else {
    text.parts.push_back({is_input, std::string(more)});
  }
}

size_t shallow_size(const TemplateValue& value) {
  constexpr size_t kObject = 400;  // of any value
  constexpr size_t kPart = 40;
  constexpr size_t kMember = 200;
  size_t size = kObject + value->val_str.parts.size() * kPart +
                value->val_arr.size() * sizeof(value) + value->val_obj.size() * kMember;
  for (const jinja::string_part& part : value->val_str.parts) {
    size += part.val.size();
  }
  return size;
}

void check_nesting(const TemplateValue& value) {
  // Depth first, without recursion; a container that contains itself is nested without end.
  struct Entry {
    const jinja::value_t* value;
    size_t depth;
  };
  constexpr size_t kMaxMembers = 1'000'000;  // members that occur twice count twice, as in JSON
  size_t num_members = 0;
  std::vector<Entry> stack = {{value.get(), 1}};
  while (!stack.empty()) {
    const Entry entry = stack.back();
    stack.pop_back();
    if (entry.depth > kMaxTemplateDepth) {
      throw std::runtime_error(
          formatted("a value contains itself, or is nested more than {} deep", kMaxTemplateDepth));
    }
    num_members += entry.value->val_arr.size() + entry.value->val_obj.size();
    if (num_members > kMaxMembers) {
      throw std::runtime_error("a value has more than a million members");
    }
    const auto add = [&](const TemplateValue& member) {
      if (!member->val_arr.empty() || !member->val_obj.empty()) {
        stack.push_back({member.get(), entry.depth + 1});
      }
    };
    for (const TemplateValue& member : entry.value->val_arr) {
      add(member);
    }
    for (const auto& [key, member] : entry.value->val_obj) {
      add(key);
      add(member);
    }
  }
}

std::string type_words(const TemplateValue& value) {
  return is_val<jinja::value_string>(value)   ? "a string"
         : is_val<jinja::value_tuple>(value)  ? "a tuple"
         : is_val<jinja::value_array>(value)  ? "a list"
         : is_val<jinja::value_object>(value) ? "an object"
         : is_val<jinja::value_bool>(value)   ? "a boolean"
         : is_val<jinja::value_int>(value)    ? "an integer"
         : is_val<jinja::value_float>(value)  ? "a number"
         : is_val<jinja::value_func>(value)   ? "a function"
         : value->is_none()                   ? "None"
         : value->is_undefined()              ? "an undefined value"
                                              : "a keyword argument";
}

}  // namespace tenon
