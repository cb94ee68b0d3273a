// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_filters.hpp"

#include "host/chat/code_points.hpp"
#include "host/chat/string_methods.hpp"
#include "host/chat/template_budget.hpp"
#include "host/chat/template_functions.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace tenon {
namespace {

using jinja::mk_val;

TemplateValue call(const TemplateValue& function,
                   const TemplateArguments& arguments,
                   jinja::context& context) {
  jinja::func_args all(context);
  for (const TemplateValue& argument : arguments) {
    all.push_back(argument);
  }
  TemplateValue result = function->invoke(all);
  TemplateBudget::charge_current(shallow_size(result));
  return result;
}

using Filter = TemplateValue (*)(const TemplateValue& value,
                                 const TemplateArguments& arguments,
                                 jinja::context& context);

TemplateValue tojson_filter(const TemplateValue& value,
                            const TemplateArguments& arguments,
                            jinja::context&) {
  const GivenArguments given("tojson", arguments);
  JsonStyle style;
  style.ensure_ascii = given.flag(0, "ensure_ascii", false);
  const TemplateValue* const indent = given.find(1, "indent");
  if (indent != nullptr && !(*indent)->is_none()) {
    style.indent = given.integer(1, "indent", 0);
    style.item_separator = ",";
  }
  const TemplateValue* const separators = given.find(2, "separators");
  if (separators != nullptr && !(*separators)->is_none()) {
    if (!is_list(*separators) || (*separators)->as_array().size() != 2) {
      throw std::runtime_error("tojson: `separators` is not a pair of strings");
    }
    style.item_separator = python_text((*separators)->as_array()[0]).str();
    style.key_separator = python_text((*separators)->as_array()[1]).str();
  }
  style.sort_keys = given.flag(3, "sort_keys", false);
  return value_of_text(json_text(value, style));
}

// `value.attribute` or, for "a.b", `value.a.b`.
TemplateValue attribute_path(TemplateValue value, const TemplateValue& attribute) {
  if (is_whole_number(attribute)) {
    return item_of(value, attribute);
  }
  const std::string path = python_text(attribute).str();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    if (value->is_undefined()) {
      return value;
    }
    value = item_of(value, value_of_text(path.substr(begin, end - begin)));
    begin = end + 1;
  }
  return value;
}

template <bool kByAttribute, bool kSelects>
TemplateValue select_filter(const TemplateValue& value,
                            const TemplateArguments& arguments,
                            jinja::context& context) {
  constexpr size_t kFirst = kByAttribute ? 1 : 0;
  if (arguments.size() < kFirst) {
    throw std::runtime_error("selectattr: the attribute is missing");
  }
  std::vector<TemplateValue> chosen;
  for (const TemplateValue& item : items_of(value)) {
    const TemplateValue tested = kByAttribute ? attribute_path(item, arguments[0]) : item;
    bool is_chosen = false;
    if (arguments.size() > kFirst) {
      is_chosen =
          apply_test(python_text(arguments[kFirst]).str(),
                     tested,
                     TemplateArguments(arguments.begin() + static_cast<ptrdiff_t>(kFirst) + 1,
                                       arguments.end()),
                     context);
    } else {
      is_chosen = is_true(tested);
    }
    if (is_chosen == kSelects) {
      chosen.push_back(item);
    }
  }
  return list_of(std::move(chosen));
}

TemplateValue map_filter(const TemplateValue& value,
                         const TemplateArguments& arguments,
                         jinja::context& context) {
  const GivenArguments given("map", arguments);
  std::vector<TemplateValue> results;
  if (const TemplateValue* const attribute = given.find(SIZE_MAX, "attribute")) {
    const TemplateValue* const otherwise = given.find(SIZE_MAX, "default");
    for (const TemplateValue& item : items_of(value)) {
      TemplateValue found = attribute_path(item, *attribute);
      results.push_back(found->is_undefined() && otherwise != nullptr ? *otherwise : found);
    }
  } else {
    const std::string name = given.text(0, "filter").str();
    for (const TemplateValue& item : items_of(value)) {
      results.push_back(apply_filter(
          name, item, TemplateArguments(arguments.begin() + 1, arguments.end()), context));
    }
  }
  return list_of(std::move(results));
}

TemplateValue join_filter(const TemplateValue& value,
                          const TemplateArguments& arguments,
                          jinja::context&) {
  const GivenArguments given("join", arguments);
  const TemplateValue* const between = given.find(0, "d");
  std::vector<TemplateValue> items = items_of(value);
  if (const TemplateValue* const attribute = given.find(1, "attribute")) {
    for (TemplateValue& item : items) {
      item = attribute_path(item, *attribute);
    }
  }
  return value_of_text(
      joined(items, between == nullptr ? TemplateString() : python_text(*between)));
}

TemplateValue default_filter(const TemplateValue& value,
                             const TemplateArguments& arguments,
                             jinja::context&) {
  const GivenArguments given("default", arguments);
  const TemplateValue* const otherwise = given.find(0, "default_value");
  if (value->is_undefined() || (given.flag(1, "boolean", false) && !is_true(value))) {
    return otherwise == nullptr ? value_of_text(std::string()) : *otherwise;
  }
  return value;
}

TemplateValue length_filter(const TemplateValue& value, const TemplateArguments&, jinja::context&) {
  if (is_text(value)) {
    return value_of_int(static_cast<int64_t>(num_code_points(value->val_str.str())));
  }
  if (is_list(value) || is_object(value) || value->is_undefined()) {
    return value_of_int(static_cast<int64_t>(items_of(value).size()));
  }
  throw std::runtime_error("length: " + type_words(value) + " has no length");
}

TemplateValue unique_filter(const TemplateValue& value, const TemplateArguments&, jinja::context&) {
  std::vector<TemplateValue> seen;
  for (const TemplateValue& item : items_of(value)) {
    if (std::ranges::none_of(seen, [&](const auto& one) { return are_equal(one, item); })) {
      seen.push_back(item);
    }
  }
  return list_of(std::move(seen));
}

TemplateValue dictsort_filter(const TemplateValue& value,
                              const TemplateArguments& arguments,
                              jinja::context&) {
  if (!is_object(value)) {
    throw std::runtime_error("dictsort expects an object, found " + type_words(value));
  }
  const GivenArguments given("dictsort", arguments);
  const bool is_exact = given.flag(0, "case_sensitive", false);
  const TemplateValue* const by = given.find(1, "by");
  const bool is_by_value = by != nullptr && python_text(*by).str() == "value";
  std::vector<std::pair<TemplateValue, TemplateValue>> items = value->as_ordered_object();
  const auto key_of = [&](const auto& item) {
    const TemplateValue& key = is_by_value ? item.second : item.first;
    return is_text(key) && !is_exact ? mapped(key->val_str, lower_of) : key;
  };
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return is_less(key_of(a), key_of(b));
  });
  if (given.flag(2, "reverse", false)) {
    std::reverse(items.begin(), items.end());
  }
  std::vector<TemplateValue> pairs;
  for (const auto& item : items) {
    pairs.push_back(mk_val<jinja::value_tuple>(item));
  }
  return list_of(std::move(pairs));
}

TemplateValue sort_filter(const TemplateValue& value,
                          const TemplateArguments& arguments,
                          jinja::context&) {
  const GivenArguments given("sort", arguments);
  const bool is_exact = given.flag(1, "case_sensitive", false);
  const TemplateValue* const attribute = given.find(2, "attribute");
  std::vector<TemplateValue> items = items_of(value);
  const auto key_of = [&](const TemplateValue& item) {
    TemplateValue key = attribute == nullptr ? item : attribute_path(item, *attribute);
    return is_text(key) && !is_exact ? mapped(key->val_str, lower_of) : key;
  };
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return is_less(key_of(a), key_of(b));
  });
  if (given.flag(0, "reverse", false)) {
    std::reverse(items.begin(), items.end());
  }
  return list_of(std::move(items));
}

TemplateValue end_of(const TemplateValue& value, bool is_first) {
  std::vector<TemplateValue> items = items_of(value);
  return items.empty() ? undefined() : is_first ? items.front() : items.back();
}

TemplateValue indent_filter(const TemplateValue& value,
                            const TemplateArguments& arguments,
                            jinja::context&) {
  const GivenArguments given("indent", arguments);
  const TemplateValue* const width = given.find(0, "width");
  std::string space(4, ' ');
  if (width != nullptr) {
    space = is_text(*width) ? (*width)->val_str.str()
                            : std::string(static_cast<size_t>(std::clamp<int64_t>(
                                              given.integer(0, "width", 4), 0, 1000)),
                                          ' ');
  }
  const TemplateArguments by = {value_of_text(std::string("\n"))};
  const TemplateValue lines = split_text(python_text(value), by, false);
  const bool indents_first = given.flag(1, "first", false);
  const bool indents_blank = given.flag(2, "blank", false);
  TemplateString out;
  for (size_t i = 0; i < lines->val_arr.size(); ++i) {
    const TemplateString& line = lines->val_arr[i]->val_str;
    append_to(out, i == 0 ? "" : "\n", Origin::kTemplate);
    if (i == 0 ? indents_first : indents_blank || line.length() > 0) {
      append_to(out, space, Origin::kTemplate);
    }
    append_to(out, line);
  }
  return value_of_text(std::move(out));
}

// The number that a text begins to be, as int() or float() of Python reads it; nothing if it is
// none.
template <class Number>
std::optional<Number> number_of_text(std::string text, int base) {
  text = text.substr(space_at_start(text));
  text.resize(text.size() - space_at_end(text));
  const char* first = text.data();
  const char* const last = first + text.size();
  first += first != last && *first == '+' ? 1 : 0;
  Number number{};
  std::from_chars_result result{};
  if constexpr (std::is_integral_v<Number>) {
    result = std::from_chars(first, last, number, base);
  } else {
    result = std::from_chars(first, last, number);
  }
  return result.ec == std::errc() && result.ptr == last && first != last ? std::optional(number)
                                                                         : std::nullopt;
}

TemplateValue int_filter(const TemplateValue& value,
                         const TemplateArguments& arguments,
                         jinja::context&) {
  const GivenArguments given("int", arguments);
  if (is_whole_number(value)) {
    return value_of_int(value->val_int);
  }
  std::optional<double> number;
  if (is_text(value)) {
    const int64_t base = given.integer(1, "base", 10);
    if (base < 2 || base > 36) {
      throw std::runtime_error("int: `base` is not in 2 to 36");
    }
    const std::string text = value->val_str.str();
    if (const auto whole = number_of_text<int64_t>(text, static_cast<int>(base))) {
      return value_of_int(*whole);
    }
    number = number_of_text<double>(text, 10);
  } else if (is_any_number(value)) {
    number = value->val_flt;
  }
  if (!number || std::isnan(*number) || std::isinf(*number)) {
    return value_of_int(given.integer(0, "default", 0));
  }
  if (std::abs(*number) >= 9.2e18) {
    throw std::runtime_error("int: the number does not fit into 64 bits");
  }
  return value_of_int(static_cast<int64_t>(*number));
}

const std::unordered_map<std::string, Filter>& filters() {
  static const std::unordered_map<std::string, Filter> all = {
      {"tojson", tojson_filter},
      {"string",
       [](const auto& value, const auto&, auto&) { return value_of_text(python_text(value)); }},
      {"safe",
       [](const auto& value, const auto&, auto&) { return value_of_text(python_text(value)); }},
      {"int", int_filter},
      {"default", default_filter},
      {"d", default_filter},
      {"length", length_filter},
      {"count", length_filter},
      {"join", join_filter},
      {"map", map_filter},
      {"select", select_filter<false, true>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<true, false>},
      {"unique", unique_filter},
      {"dictsort", dictsort_filter},
      {"sort", sort_filter},
      {"indent", indent_filter},
      {"first", [](const auto& value, const auto&, auto&) { return end_of(value, true); }},
      {"last", [](const auto& value, const auto&, auto&) { return end_of(value, false); }},
      {"list", [](const auto& value, const auto&, auto&) { return list_of(items_of(value)); }},
      {"reverse",
       [](const auto& value, const auto&, auto&) {
         std::vector<TemplateValue> items = items_of(value);
         std::reverse(items.begin(), items.end());
         return is_text(value) ? value_of_text(joined(items, {})) : list_of(std::move(items));
       }},
      {"items",
       [](const auto& value, const auto& arguments, auto& context) {
         if (value->is_undefined()) {
           return list_of({});
         }
         if (!is_object(value)) {
           throw std::runtime_error("items expects an object, found " + type_words(value));
         }
         return call(engine_function("items", value), arguments, context);
       }},
  };
  return all;
}

}  // namespace

TemplateValue apply_filter(const std::string& name,
                           const TemplateValue& value,
                           const TemplateArguments& arguments,
                           jinja::context& context) {
  if (const auto own = filters().find(name); own != filters().end()) {
    return own->second(value, arguments, context);
  }
  // Filters that convert what they are given to text.
  static constexpr std::array<std::pair<std::string_view, const char*>, 6> kOfText = {
      {{"trim", "strip"},
       {"upper", "upper"},
       {"lower", "lower"},
       {"title", "title"},
       {"capitalize", "capitalize"},
       {"replace", "replace"}}};
  for (const auto& [filter, method] : kOfText) {
    if (filter == name) {
      return find_string_method(method)(python_text(value), arguments);
    }
  }
  if (const TemplateValue function = engine_function(name, value)) {
    return call(function, arguments, context);
  }
  throw std::runtime_error("no filter `" + name + "` for " + type_words(value));
}

}  // namespace tenon
