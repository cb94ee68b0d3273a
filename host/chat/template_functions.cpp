// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_functions.hpp"

#include "host/chat/template_budget.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
#include <map>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace tenon {
namespace {

using jinja::cast_val;
using jinja::is_val;
using jinja::mk_val;

TemplateValue undefined() {
  return mk_val<jinja::value_undefined>();
}
TemplateValue value_of_bool(bool value) {
  return mk_val<jinja::value_bool>(value);
}
TemplateValue value_of_int(int64_t value) {
  return mk_val<jinja::value_int>(value);
}
bool is_text(const TemplateValue& value) {
  return is_val<jinja::value_string>(value);
}
bool is_list(const TemplateValue& value) {
  return is_val<jinja::value_array>(value);
}
bool is_object(const TemplateValue& value) {
  return is_val<jinja::value_object>(value);
}
bool is_whole_number(const TemplateValue& value) {
  return is_val<jinja::value_int>(value) || is_val<jinja::value_bool>(value);
}
bool is_any_number(const TemplateValue& value) {
  return is_whole_number(value) || is_val<jinja::value_float>(value);
}
double as_double(const TemplateValue& value) {
  return is_whole_number(value) ? static_cast<double>(value->val_int) : value->val_flt;
}

TemplateValue list_of(std::vector<TemplateValue> items) {
  TemplateBudget::charge_current(items.size() * sizeof(TemplateValue));
  return mk_val<jinja::value_array>(std::move(items));
}

// The arguments of one call, by position or keyword.
class Arguments {
 public:
  Arguments(const char* function, const TemplateArguments& all) : function_(function), all_(all) {}

  // Null if it is not given.
  const TemplateValue* find(size_t position, const char* keyword) const {
    size_t seen = 0;
    for (const TemplateValue& argument : all_) {
      const auto* const named = cast_val<jinja::value_kwarg>(argument);
      if (named != nullptr ? named->key == keyword : seen++ == position) {
        return named != nullptr ? &named->val : &argument;
      }
    }
    return nullptr;
  }
  const TemplateValue& get(size_t position, const char* keyword) const {
    if (const TemplateValue* const found = find(position, keyword)) {
      return *found;
    }
    throw std::runtime_error(std::string(function_) + ": the argument `" + keyword +
                             "` is missing");
  }
  TemplateString text(size_t position, const char* keyword) const {
    const TemplateValue& value = get(position, keyword);
    if (!is_text(value)) {
      throw std::runtime_error(std::string(function_) + ": `" + keyword + "` is " +
                               type_words(value) + ", expected a string");
    }
    return value->val_str;
  }
  int64_t integer(size_t position, const char* keyword, int64_t otherwise) const {
    const TemplateValue* const value = find(position, keyword);
    if (value == nullptr || (*value)->is_none()) {
      return otherwise;
    }
    if (!is_whole_number(*value)) {
      throw std::runtime_error(std::string(function_) + ": `" + keyword + "` is " +
                               type_words(*value) + ", expected an integer");
    }
    return (*value)->val_int;
  }
  bool flag(size_t position, const char* keyword, bool otherwise) const {
    const TemplateValue* const value = find(position, keyword);
    return value == nullptr ? otherwise : is_true(*value);
  }

 private:
  const char* function_;
  const TemplateArguments& all_;
};

// ---- strings ----

using TextMethod = TemplateValue (*)(const TemplateString& text,
                                     const TemplateArguments& arguments);

TemplateValue stripped(const TemplateString& text,
                       const TemplateArguments& arguments,
                       bool at_start,
                       bool at_end) {
  const Arguments given("strip", arguments);
  const TemplateValue* const chars = given.find(0, "chars");
  const std::string flat = text.str();
  size_t begin = 0;
  size_t end = flat.size();
  if (chars == nullptr || (*chars)->is_none()) {
    begin = at_start ? space_at_start(flat) : 0;
    end -= at_end && begin < end ? space_at_end(std::string_view(flat).substr(begin)) : 0;
  } else {
    const std::string set = given.text(0, "chars").str();
    const std::vector<size_t> members = code_points(set);
    const std::vector<size_t> points = code_points(flat);
    const auto is_member = [&](size_t i) {
      const std::string_view point =
          std::string_view(flat).substr(points[i], points[i + 1] - points[i]);
      for (size_t m = 0; m + 1 < members.size(); ++m) {
        if (point == std::string_view(set).substr(members[m], members[m + 1] - members[m])) {
          return true;
        }
      }
      return false;
    };
    size_t first = 0;
    size_t last = points.size() - 1;
    while (at_start && first < last && is_member(first)) {
      ++first;
    }
    while (at_end && last > first && is_member(last - 1)) {
      --last;
    }
    begin = points[first];
    end = points[last];
  }
  return value_of_text(part_of(text, begin, end));
}

// The pieces of a text between separators, from the left or from the right.
TemplateValue split_text(const TemplateString& text,
                         const TemplateArguments& arguments,
                         bool from_right) {
  const Arguments given("split", arguments);
  const TemplateValue* const separator = given.find(0, "sep");
  int64_t left = given.integer(1, "maxsplit", -1);
  const std::string flat = text.str();
  std::vector<std::pair<size_t, size_t>> ranges;
  if (separator == nullptr || (*separator)->is_none()) {
    if (from_right && left >= 0) {
      throw std::runtime_error("rsplit with a maximum needs a separator");
    }
    size_t at = space_at_start(flat);
    while (at < flat.size()) {
      size_t end = at;
      if (left-- == 0) {
        end = flat.size() - space_at_end(std::string_view(flat).substr(at));
      } else {
        while (end < flat.size() && space_at_start(std::string_view(flat).substr(end, 4)) == 0) {
          ++end;
        }
      }
      ranges.emplace_back(at, end);
      at = end + space_at_start(std::string_view(flat).substr(end));
    }
  } else {
    const std::string by = given.text(0, "sep").str();
    if (by.empty()) {
      throw std::runtime_error("split: the separator is empty");
    }
    if (from_right) {
      size_t end = flat.size();
      while (left-- != 0) {
        const size_t found = end < by.size() ? std::string::npos : flat.rfind(by, end - by.size());
        if (found == std::string::npos) {
          break;
        }
        ranges.emplace_back(found + by.size(), end);
        end = found;
      }
      ranges.emplace_back(0, end);
      std::reverse(ranges.begin(), ranges.end());
    } else {
      size_t begin = 0;
      while (left-- != 0) {
        const size_t found = flat.find(by, begin);
        if (found == std::string::npos) {
          break;
        }
        ranges.emplace_back(begin, found);
        begin = found + by.size();
      }
      ranges.emplace_back(begin, flat.size());
    }
  }
  // Ranges ascend, so that one walk over the parts serves all of them.
  std::vector<TemplateValue> items;
  items.reserve(ranges.size());
  TemplateBudget::charge_current(ranges.size() * 400 + flat.size());
  size_t part = 0;
  size_t part_begin = 0;
  for (const auto& [begin, end] : ranges) {
    TemplateString item;
    while (part < text.parts.size() && part_begin + text.parts[part].val.size() <= begin) {
      part_begin += text.parts[part++].val.size();
    }
    size_t at = part_begin;
    for (size_t p = part; p < text.parts.size() && at < end; ++p) {
      const jinja::string_part& source = text.parts[p];
      const size_t from = std::max(begin, at);
      const size_t to = std::min(end, at + source.val.size());
      if (from < to) {
        item.parts.push_back({source.is_input, source.val.substr(from - at, to - from)});
      }
      at += source.val.size();
    }
    items.push_back(value_of_text(std::move(item)));
  }
  return list_of(std::move(items));
}

TemplateValue replaced(const TemplateString& text, const TemplateArguments& arguments) {
  const Arguments given("replace", arguments);
  const std::string old = given.text(0, "old").str();
  const TemplateString with = given.text(1, "new");
  int64_t left = given.integer(2, "count", -1);
  const std::string flat = text.str();
  TemplateString out;
  if (old.empty()) {
    const std::vector<size_t> points = code_points(flat);
    for (size_t i = 0; i < points.size(); ++i) {
      if (left-- != 0) {
        append_to(out, with);
      } else {
        left = 0;
      }
      if (i + 1 < points.size()) {
        append_to(out, part_of(text, points[i], points[i + 1]));
      }
    }
    return value_of_text(std::move(out));
  }
  size_t begin = 0;
  while (left-- != 0) {
    const size_t found = flat.find(old, begin);
    if (found == std::string::npos) {
      break;
    }
    append_to(out, part_of(text, begin, found));
    append_to(out, with);
    begin = found + old.size();
  }
  append_to(out, part_of(text, begin, flat.size()));
  return value_of_text(std::move(out));
}

TemplateString joined(const std::vector<TemplateValue>& items, const TemplateString& between) {
  TemplateString out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      append_to(out, between);
    }
    append_to(out, python_text(items[i]));
  }
  return out;
}

// Maps each byte; letters beyond ASCII stay as they are.
TemplateValue mapped(const TemplateString& text, const std::function<char(char)>& map) {
  TemplateString out = text;
  for (jinja::string_part& part : out.parts) {
    std::transform(part.val.begin(), part.val.end(), part.val.begin(), map);
  }
  TemplateBudget::charge_current(out.length());
  return value_of_text(std::move(out));
}
char upper_of(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower_of(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (static_cast<unsigned char>(c) >= 0x80);
}

// True if the text starts (ends) with the string, or with one of a tuple of strings.
bool has_affix(const TemplateString& text, const TemplateValue& affix, bool at_end) {
  if (is_list(affix)) {
    return std::ranges::any_of(affix->as_array(),
                               [&](const auto& one) { return has_affix(text, one, at_end); });
  }
  if (!is_text(affix)) {
    throw std::runtime_error("startswith and endswith expect a string, found " + type_words(affix));
  }
  const std::string flat = text.str();
  const std::string with = affix->val_str.str();
  return at_end ? flat.ends_with(with) : flat.starts_with(with);
}

int64_t place_in(const TemplateString& text, const TemplateString& what, bool from_right) {
  const std::string flat = text.str();
  const size_t found = from_right ? flat.rfind(what.str()) : flat.find(what.str());
  return found == std::string::npos
             ? -1
             : static_cast<int64_t>(num_code_points(std::string_view(flat).substr(0, found)));
}

bool all_of(const TemplateString& text, bool (*is_member)(char)) {
  const std::string flat = text.str();
  return !flat.empty() && std::ranges::all_of(flat, is_member);
}

const std::unordered_map<std::string, TextMethod>& text_methods() {
  static const std::unordered_map<std::string, TextMethod> methods = {
      {"strip",
       [](const auto& text, const auto& args) { return stripped(text, args, true, true); }},
      {"lstrip",
       [](const auto& text, const auto& args) { return stripped(text, args, true, false); }},
      {"rstrip",
       [](const auto& text, const auto& args) { return stripped(text, args, false, true); }},
      {"split", [](const auto& text, const auto& args) { return split_text(text, args, false); }},
      {"rsplit", [](const auto& text, const auto& args) { return split_text(text, args, true); }},
      {"splitlines",
       [](const auto& text, const auto&) {
         const TemplateArguments by = {value_of_text(std::string("\n"))};
         TemplateValue lines = split_text(text, by, false);
         if (lines->val_arr.back()->val_str.length() == 0) {
           lines->val_arr.pop_back();
         }
         return lines;
       }},
      {"replace", [](const auto& text, const auto& args) { return replaced(text, args); }},
      {"join",
       [](const auto& text, const auto& args) {
         const Arguments given("join", args);
         const std::vector<TemplateValue> items = items_of(given.get(0, "iterable"));
         for (const TemplateValue& item : items) {
           if (!is_text(item)) {
             throw std::runtime_error("join expects strings, found " + type_words(item));
           }
         }
         return value_of_text(joined(items, text));
       }},
      {"upper", [](const auto& text, const auto&) { return mapped(text, upper_of); }},
      {"lower", [](const auto& text, const auto&) { return mapped(text, lower_of); }},
      {"capitalize",
       [](const auto& text, const auto&) {
         bool is_first = true;
         return mapped(text, [&](char c) {
           return std::exchange(is_first, false) ? upper_of(c) : lower_of(c);
         });
       }},
      {"title",
       [](const auto& text, const auto&) {
         bool is_inside = false;
         return mapped(text, [&](char c) {
           return std::exchange(is_inside, is_letter(c)) ? lower_of(c) : upper_of(c);
         });
       }},
      {"startswith",
       [](const auto& text, const auto& args) {
         return value_of_bool(
             has_affix(text, Arguments("startswith", args).get(0, "prefix"), false));
       }},
      {"endswith",
       [](const auto& text, const auto& args) {
         return value_of_bool(has_affix(text, Arguments("endswith", args).get(0, "suffix"), true));
       }},
      {"removeprefix",
       [](const auto& text, const auto& args) {
         const std::string prefix = Arguments("removeprefix", args).text(0, "prefix").str();
         return value_of_text(
             text.str().starts_with(prefix) ? part_of(text, prefix.size(), text.length()) : text);
       }},
      {"removesuffix",
       [](const auto& text, const auto& args) {
         const std::string suffix = Arguments("removesuffix", args).text(0, "suffix").str();
         return value_of_text(
             text.str().ends_with(suffix) ? part_of(text, 0, text.length() - suffix.size()) : text);
       }},
      {"find",
       [](const auto& text, const auto& args) {
         return value_of_int(place_in(text, Arguments("find", args).text(0, "sub"), false));
       }},
      {"rfind",
       [](const auto& text, const auto& args) {
         return value_of_int(place_in(text, Arguments("rfind", args).text(0, "sub"), true));
       }},
      {"index",
       [](const auto& text, const auto& args) {
         const int64_t place = place_in(text, Arguments("index", args).text(0, "sub"), false);
         if (place < 0) {
           throw std::runtime_error("index: the substring was not found");
         }
         return value_of_int(place);
       }},
      {"count",
       [](const auto& text, const auto& args) {
         const std::string flat = text.str();
         const std::string what = Arguments("count", args).text(0, "sub").str();
         int64_t n = what.empty() ? static_cast<int64_t>(num_code_points(flat)) + 1 : 0;
         for (size_t at = what.empty() ? std::string::npos : flat.find(what);
              at != std::string::npos;
              at = flat.find(what, at + what.size())) {
           ++n;
         }
         return value_of_int(n);
       }},
      {"isdigit",
       [](const auto& text, const auto&) {
         return value_of_bool(all_of(text, [](char c) { return c >= '0' && c <= '9'; }));
       }},
      {"isupper",
       [](const auto& text, const auto&) {
         return value_of_bool(all_of(text, [](char c) { return c == upper_of(c); }) &&
                              !all_of(text, [](char c) { return !is_letter(c); }));
       }},
      {"islower",
       [](const auto& text, const auto&) {
         return value_of_bool(all_of(text, [](char c) { return c == lower_of(c); }) &&
                              !all_of(text, [](char c) { return !is_letter(c); }));
       }},
  };
  return methods;
}

// The engine's own function of this name, bound to the value; null if it has none.
TemplateValue engine_function(const std::string& name, const TemplateValue& value) {
  const jinja::func_builtins& functions = value->get_builtins();
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : mk_val<jinja::value_func>(name, found->second, value);
}

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

// ---- filters ----

using Filter = TemplateValue (*)(const TemplateValue& value,
                                 const TemplateArguments& arguments,
                                 jinja::context& context);

TemplateValue tojson_filter(const TemplateValue& value,
                            const TemplateArguments& arguments,
                            jinja::context&) {
  const Arguments given("tojson", arguments);
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
  const Arguments given("map", arguments);
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
  const Arguments given("join", arguments);
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
  const Arguments given("default", arguments);
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
  const Arguments given("dictsort", arguments);
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
  const Arguments given("sort", arguments);
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
  const Arguments given("indent", arguments);
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

const std::unordered_map<std::string, Filter>& filters() {
  static const std::unordered_map<std::string, Filter> all = {
      {"tojson", tojson_filter},
      {"string",
       [](const auto& value, const auto&, auto&) { return value_of_text(python_text(value)); }},
      {"safe",
       [](const auto& value, const auto&, auto&) { return value_of_text(python_text(value)); }},
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

// ---- operators ----

[[noreturn]] void fail_operator(const std::string& op,
                                const TemplateValue& a,
                                const TemplateValue& b) {
  throw std::runtime_error("`" + op + "` cannot combine " + type_words(a) + " and " +
                           type_words(b));
}

TemplateValue whole_result(const std::string& op, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool overflows = op == "+"   ? __builtin_add_overflow(a, b, &result)
                         : op == "-" ? __builtin_sub_overflow(a, b, &result)
                                     : __builtin_mul_overflow(a, b, &result);
  if (overflows) {
    throw std::runtime_error("the result of `" + op + "` does not fit into 64 bits");
  }
  return value_of_int(result);
}

TemplateValue repeated(const TemplateValue& what, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (n > 0 && shallow_size(what) > SIZE_MAX / 2 / n) {
    throw std::runtime_error("the result of `*` is too long");
  }
  TemplateBudget::charge_current(n * shallow_size(what));
  if (is_text(what)) {
    TemplateString out;
    for (size_t i = 0; i < n; ++i) {
      append_to(out, what->val_str);
    }
    return value_of_text(std::move(out));
  }
  std::vector<TemplateValue> items;
  for (size_t i = 0; i < n; ++i) {
    items.insert(items.end(), what->val_arr.begin(), what->val_arr.end());
  }
  return list_of(std::move(items));
}

TemplateValue arithmetic(const std::string& op, const TemplateValue& a, const TemplateValue& b) {
  if (op == "/" || op == "%") {
    if (as_double(b) == 0) {
      throw std::runtime_error("division by zero");
    }
    if (op == "/") {
      return mk_val<jinja::value_float>(as_double(a) / as_double(b));
    }
    if (is_whole_number(a) && is_whole_number(b)) {
      const int64_t n = b->val_int;
      const int64_t rest = n == -1 ? 0 : a->val_int % n;
      return value_of_int(rest != 0 && (rest < 0) != (n < 0) ? rest + n : rest);
    }
    const double n = as_double(b);
    const double rest = std::fmod(as_double(a), n);
    return mk_val<jinja::value_float>(rest != 0 && (rest < 0) != (n < 0) ? rest + n : rest);
  }
  if (is_whole_number(a) && is_whole_number(b)) {
    return whole_result(op, a->val_int, b->val_int);
  }
  const double x = as_double(a);
  const double y = as_double(b);
  return mk_val<jinja::value_float>(op == "+" ? x + y : op == "-" ? x - y : x * y);
}

// A position of a slice: counted from the end if negative, then limited.
int64_t limited_position(int64_t given, int64_t n, int64_t low, int64_t high) {
  return std::clamp(given < 0 ? given + n : given, low, high);
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
      return text_methods().at(method)(python_text(value), arguments);
    }
  }
  if (const TemplateValue function = engine_function(name, value)) {
    return call(function, arguments, context);
  }
  throw std::runtime_error("no filter `" + name + "` for " + type_words(value));
}

bool apply_test(const std::string& name,
                const TemplateValue& value,
                const TemplateArguments& arguments,
                jinja::context& context) {
  const Arguments given(name.c_str(), arguments);
  if (name == "iterable" || name == "sequence") {
    return is_text(value) || is_list(value) || is_object(value) || value->is_undefined();
  }
  if (name == "number") {
    return is_any_number(value);
  }
  if (name == "eq" || name == "equalto" || name == "==" || name == "sameas") {
    return are_equal(value, given.get(0, "other"));
  }
  if (name == "ne" || name == "!=") {
    return !are_equal(value, given.get(0, "other"));
  }
  if (name == "in") {
    return is_in(value, given.get(0, "seq"));
  }
  if (name == "lt" || name == "lessthan" || name == "<") {
    return is_less(value, given.get(0, "other"));
  }
  if (name == "gt" || name == "greaterthan" || name == ">") {
    return is_less(given.get(0, "other"), value);
  }
  if (name == "le" || name == "<=") {
    return !is_less(given.get(0, "other"), value);
  }
  if (name == "ge" || name == ">=") {
    return !is_less(value, given.get(0, "other"));
  }
  if (name == "divisibleby") {
    const int64_t by = given.integer(0, "num", 0);
    if (by == 0 || !is_whole_number(value)) {
      throw std::runtime_error("divisibleby expects integers, the second not 0");
    }
    return by == -1 || value->val_int % by == 0;
  }
  const jinja::func_builtins& tests = jinja::global_builtins();
  const auto found = tests.find("test_is_" + name);
  if (found == tests.end()) {
    throw std::runtime_error("no test `" + name + "`");
  }
  jinja::func_args all(context);
  all.func_name = name;
  all.push_back(value);
  for (const TemplateValue& argument : arguments) {
    all.push_back(argument);
  }
  return is_true(found->second(all));
}

TemplateValue attribute_of(const TemplateValue& object, const std::string& name) {
  if (object->is_undefined()) {
    const std::string& hint = cast_val<jinja::value_undefined>(object)->hint;
    throw std::runtime_error("`" + (hint.empty() ? "the value" : hint) +
                             "` is undefined, and has no `" + name + "`");
  }
  if (is_object(object)) {
    const bool is_method = name == "get" || name == "items" || name == "keys" || name == "values";
    if (is_method && cast_val<jinja::value_object>(object)->has_builtins) {
      return engine_function(name, object);
    }
    TemplateValue missing = mk_val<jinja::value_undefined>(name);
    return object->at(name, missing);
  }
  if (is_text(object)) {
    if (const auto method = text_methods().find(name); method != text_methods().end()) {
      const TextMethod function = method->second;
      return mk_val<jinja::value_func>(
          name, [function, text = object->val_str](const jinja::func_args& arguments) {
            return function(text, arguments.get_args());
          });
    }
    if (name == "format") {
      return engine_function(name, object);
    }
  }
  if (is_list(object)) {
    for (const char* const change : {"append", "extend", "insert", "pop", "remove", "clear"}) {
      if (name == change) {
        throw std::runtime_error("templates may not change lists with `" + name + "`");
      }
    }
    if (name == "index" || name == "count") {
      return mk_val<jinja::value_func>(
          name, [list = object, name](const jinja::func_args& arguments) -> TemplateValue {
            const TemplateValue what = arguments.get_pos(0);
            const auto& items = list->as_array();
            if (name == "count") {
              return value_of_int(std::ranges::count_if(
                  items, [&](const auto& item) { return are_equal(item, what); }));
            }
            const auto found = std::ranges::find_if(
                items, [&](const auto& item) { return are_equal(item, what); });
            if (found == items.end()) {
              throw std::runtime_error("index: the value is not in the list");
            }
            return value_of_int(found - items.begin());
          });
    }
  }
  return mk_val<jinja::value_undefined>(name);
}

TemplateValue item_of(const TemplateValue& object, const TemplateValue& key) {
  if (is_object(object) && !key->is_undefined() && key->is_hashable()) {
    TemplateValue missing;
    TemplateValue found = object->at(key, missing);
    if (found != nullptr) {
      return found;
    }
  }
  if (is_whole_number(key)) {
    int64_t index = key->val_int;
    if (is_list(object)) {
      const auto& items = object->as_array();
      index += index < 0 ? static_cast<int64_t>(items.size()) : 0;
      return index >= 0 && index < static_cast<int64_t>(items.size())
                 ? items[static_cast<size_t>(index)]
                 : undefined();
    }
    if (is_text(object)) {
      const std::vector<size_t> points = code_points(object->val_str.str());
      const auto n = static_cast<int64_t>(points.size()) - 1;
      index += index < 0 ? n : 0;
      return index >= 0 && index < n
                 ? value_of_text(part_of(object->val_str,
                                         points[static_cast<size_t>(index)],
                                         points[static_cast<size_t>(index) + 1]))
                 : undefined();
    }
  }
  if (is_text(key)) {
    return attribute_of(object, key->val_str.str());
  }
  if (object->is_undefined()) {
    throw std::runtime_error("an undefined value has no members");
  }
  return undefined();
}

TemplateValue slice_of(const TemplateValue& object,
                       const TemplateValue& start,
                       const TemplateValue& stop,
                       const TemplateValue& step) {
  const auto position = [](const TemplateValue& value, int64_t otherwise) {
    if (value == nullptr || value->is_none()) {
      return otherwise;
    }
    if (!is_whole_number(value)) {
      throw std::runtime_error("a slice has " + type_words(value) + " as position");
    }
    // Sums with lengths stay in range.
    return std::clamp<int64_t>(value->val_int, INT64_MIN / 4, INT64_MAX / 4);
  };
  const bool is_of_text = is_text(object);
  if (!is_of_text && !is_list(object)) {
    throw std::runtime_error("cannot slice " + type_words(object));
  }
  const std::vector<size_t> points =
      is_of_text ? code_points(object->val_str.str()) : std::vector<size_t>();
  const auto n = static_cast<int64_t>(is_of_text ? points.size() - 1 : object->val_arr.size());
  const int64_t by = position(step, 1);
  if (by == 0) {
    throw std::runtime_error("the step of a slice is 0");
  }
  const bool is_forward = by > 0;
  const int64_t low = is_forward ? 0 : -1;
  const int64_t high = is_forward ? n : n - 1;
  const int64_t first = start == nullptr || start->is_none()
                            ? (is_forward ? low : high)
                            : limited_position(position(start, 0), n, low, high);
  const int64_t end = stop == nullptr || stop->is_none()
                          ? (is_forward ? high : low)
                          : limited_position(position(stop, 0), n, low, high);
  if (is_of_text && by == 1) {
    return value_of_text(part_of(object->val_str,
                                 points[static_cast<size_t>(first)],
                                 points[static_cast<size_t>(std::max(first, end))]));
  }
  std::vector<TemplateValue> items;
  TemplateString text;
  for (int64_t i = first; is_forward ? i < end : i > end; i += by) {
    const auto at = static_cast<size_t>(i);
    if (is_of_text) {
      append_to(text, part_of(object->val_str, points[at], points[at + 1]));
    } else {
      items.push_back(object->val_arr[at]);
    }
  }
  if (is_of_text) {
    return value_of_text(std::move(text));
  }
  return is_val<jinja::value_tuple>(object) ? mk_val<jinja::value_tuple>(std::move(items))
                                            : list_of(std::move(items));
}

TemplateValue apply_operator(const std::string& op,
                             const TemplateValue& a,
                             const TemplateValue& b) {
  if (op == "==" || op == "!=") {
    return value_of_bool(are_equal(a, b) == (op == "=="));
  }
  if (op == "in" || op == "not in") {
    return value_of_bool(is_in(a, b) == (op == "in"));
  }
  if (op == "~") {
    TemplateString text = python_text(a);
    TemplateBudget::charge_current(text.length());
    append_to(text, python_text(b));
    return value_of_text(std::move(text));
  }
  for (const TemplateValue* const side : {&a, &b}) {
    if ((*side)->is_undefined()) {
      const std::string& hint = cast_val<jinja::value_undefined>(*side)->hint;
      throw std::runtime_error("`" + (hint.empty() ? "a value" : hint) + "` of `" + op +
                               "` is undefined");
    }
  }
  if (op == "<") {
    return value_of_bool(is_less(a, b));
  }
  if (op == ">") {
    return value_of_bool(is_less(b, a));
  }
  if (op == "<=") {
    return value_of_bool(!is_less(b, a));
  }
  if (op == ">=") {
    return value_of_bool(!is_less(a, b));
  }
  if (is_any_number(a) && is_any_number(b)) {
    return arithmetic(op, a, b);
  }
  if (op == "+" && is_text(a) && is_text(b)) {
    TemplateString text = a->val_str;
    TemplateBudget::charge_current(text.length());
    append_to(text, b->val_str);
    return value_of_text(std::move(text));
  }
  if (op == "+" && is_list(a) && is_list(b)) {
    std::vector<TemplateValue> items = a->as_array();
    items.insert(items.end(), b->as_array().begin(), b->as_array().end());
    TemplateValue sum = list_of(std::move(items));
    check_nesting(sum);
    return sum;
  }
  if (op == "*") {
    const bool is_left = is_text(a) || is_list(a);
    const TemplateValue& what = is_left ? a : b;
    const TemplateValue& times = is_left ? b : a;
    if ((is_text(what) || is_list(what)) && is_whole_number(times)) {
      return repeated(what, times->val_int);
    }
  }
  fail_operator(op, a, b);
}

std::vector<TemplateValue> items_of(const TemplateValue& value) {
  std::vector<TemplateValue> items;
  if (is_list(value)) {
    items = value->as_array();
  } else if (is_object(value)) {
    for (const auto& [key, item] : value->as_ordered_object()) {
      items.push_back(key);
    }
  } else if (is_text(value)) {
    const std::vector<size_t> points = code_points(value->val_str.str());
    TemplateBudget::charge_current(points.size() * 400);
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      items.push_back(value_of_text(part_of(value->val_str, points[i], points[i + 1])));
    }
  } else if (!value->is_undefined()) {
    throw std::runtime_error("cannot loop over " + type_words(value));
  }
  return items;
}

void define_functions(jinja::context& context) {
  const auto define = [&](const char* name, const jinja::func_handler& function) {
    context.set_val(name, mk_val<jinja::value_func>(name, function));
  };
  define("range", [](const jinja::func_args& arguments) -> TemplateValue {
    const TemplateArguments& given = arguments.get_args();
    if (given.empty() || given.size() > 3 ||
        !std::ranges::all_of(given, [](const auto& value) { return is_whole_number(value); })) {
      throw std::runtime_error("range expects one to three integers");
    }
    const int64_t start = given.size() == 1 ? 0 : given[0]->val_int;
    const int64_t stop = given.size() == 1 ? given[0]->val_int : given[1]->val_int;
    const int64_t step = given.size() == 3 ? given[2]->val_int : 1;
    if (step == 0) {
      throw std::runtime_error("range: the step is 0");
    }
    constexpr size_t kMaxRange = 100'000;  // as in Jinja's sandbox
    std::vector<TemplateValue> items;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
      if (items.size() == kMaxRange) {
        throw std::runtime_error("range has more than 100000 elements");
      }
      items.push_back(value_of_int(i));
      if (__builtin_add_overflow(i, step, &i)) {
        break;
      }
    }
    TemplateBudget::charge_current(items.size() * 400);
    return list_of(std::move(items));
  });
  const auto object_of_arguments = [](const jinja::func_args& arguments) -> TemplateValue {
    auto object = mk_val<jinja::value_object>();
    for (const TemplateValue& argument : arguments.get_args()) {
      if (const auto* const named = cast_val<jinja::value_kwarg>(argument)) {
        object->insert(named->key, named->val);
      } else if (is_object(argument)) {
        for (const auto& [key, item] : argument->as_ordered_object()) {
          object->insert(key, item);
        }
      } else {
        throw std::runtime_error("namespace and dict expect keyword arguments, found " +
                                 type_words(argument));
      }
    }
    check_nesting(object);
    return object;
  };
  define("namespace", object_of_arguments);
  define("dict", object_of_arguments);
  define("raise_exception", [](const jinja::func_args& arguments) -> TemplateValue {
    throw std::runtime_error("the template raised an error: " +
                             python_text(arguments.get_pos(0)).str());
  });
  define("strftime_now", [](const jinja::func_args& arguments) -> TemplateValue {
    const std::string format = python_text(arguments.get_pos(0)).str();
    std::tm now{};
    localtime_r(&arguments.ctx.current_time, &now);
    std::array<char, 256> text{};
    const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &now);
    return value_of_text(std::string(text.data(), size));
  });
}

}  // namespace tenon
