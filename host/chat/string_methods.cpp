// SPDX-License-Identifier: Apache-2.0

#include "host/chat/string_methods.hpp"

#include "host/chat/code_points.hpp"
#include "host/chat/template_budget.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace tenon {
namespace {

using TextMethods = std::unordered_map<std::string, TextMethod>;

TemplateValue stripped(const TemplateString& text,
                       const TemplateArguments& arguments,
                       bool at_start,
                       bool at_end) {
  const GivenArguments given("strip", arguments);
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

using TextRange = std::pair<size_t, size_t>;  // bytes [first, second)

std::vector<TextRange> words_in(const std::string& flat, int64_t left) {
  std::vector<TextRange> ranges;
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
  return ranges;
}

std::vector<TextRange> ranges_between(const std::string& flat,
                                      const std::string& by,
                                      int64_t left,
                                      bool from_right) {
  std::vector<TextRange> ranges;
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
  return ranges;
}

TemplateValue replaced(const TemplateString& text, const TemplateArguments& arguments) {
  const GivenArguments given("replace", arguments);
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

char upper_of(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
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

int64_t position_in(const TemplateString& text, const TemplateString& what, bool from_right) {
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
TemplateValue num_found(const TemplateString& text, const TemplateArguments& args) {
  const std::string flat = text.str();
  const std::string what = GivenArguments("count", args).text(0, "sub").str();
  int64_t n = what.empty() ? static_cast<int64_t>(num_code_points(flat)) + 1 : 0;
  for (size_t at = what.empty() ? std::string::npos : flat.find(what); at != std::string::npos;
       at = flat.find(what, at + what.size())) {
    ++n;
  }
  return value_of_int(n);
}

// Methods that return texts or lists of texts.
const TextMethods& making_methods() {
  static const TextMethods methods = {
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
         const GivenArguments given("join", args);
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
  };
  return methods;
}

// Methods that return a number or a truth value, or drop an affix.
const TextMethods& asking_methods() {
  static const TextMethods methods = {
      {"startswith",
       [](const auto& text, const auto& args) {
         return value_of_bool(
             has_affix(text, GivenArguments("startswith", args).get(0, "prefix"), false));
       }},
      {"endswith",
       [](const auto& text, const auto& args) {
         return value_of_bool(
             has_affix(text, GivenArguments("endswith", args).get(0, "suffix"), true));
       }},
      {"removeprefix",
       [](const auto& text, const auto& args) {
         const std::string prefix = GivenArguments("removeprefix", args).text(0, "prefix").str();
         return value_of_text(
             text.str().starts_with(prefix) ? part_of(text, prefix.size(), text.length()) : text);
       }},
      {"removesuffix",
       [](const auto& text, const auto& args) {
         const std::string suffix = GivenArguments("removesuffix", args).text(0, "suffix").str();
         return value_of_text(
             text.str().ends_with(suffix) ? part_of(text, 0, text.length() - suffix.size()) : text);
       }},
      {"find",
       [](const auto& text, const auto& args) {
         return value_of_int(position_in(text, GivenArguments("find", args).text(0, "sub"), false));
       }},
      {"rfind",
       [](const auto& text, const auto& args) {
         return value_of_int(position_in(text, GivenArguments("rfind", args).text(0, "sub"), true));
       }},
      {"index",
       [](const auto& text, const auto& args) {
         const int64_t position =
             position_in(text, GivenArguments("index", args).text(0, "sub"), false);
         if (position < 0) {
           throw std::runtime_error("index: the substring was not found");
         }
         return value_of_int(position);
       }},
      {"count", [](const auto& text, const auto& args) { return num_found(text, args); }},
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

}  // namespace

TextMethod find_string_method(const std::string& name) {
  for (const TextMethods* const methods : {&making_methods(), &asking_methods()}) {
    if (const auto found = methods->find(name); found != methods->end()) {
      return found->second;
    }
  }
  return nullptr;
}

TemplateValue split_text(const TemplateString& text,
                         const TemplateArguments& arguments,
                         bool from_right) {
  const GivenArguments given("split", arguments);
  const TemplateValue* const separator = given.find(0, "sep");
  const int64_t left = given.integer(1, "maxsplit", -1);
  const std::string flat = text.str();
  std::vector<TextRange> ranges;
  if (separator == nullptr || (*separator)->is_none()) {
    if (from_right && left >= 0) {
      throw std::runtime_error("rsplit with a maximum needs a separator");
    }
    ranges = words_in(flat, left);
  } else {
    const std::string by = given.text(0, "sep").str();
    if (by.empty()) {
      throw std::runtime_error("split: the separator is empty");
    }
    ranges = ranges_between(flat, by, left, from_right);
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

TemplateValue mapped(const TemplateString& text, const std::function<char(char)>& map) {
  TemplateString out = text;
  for (jinja::string_part& part : out.parts) {
    std::transform(part.val.begin(), part.val.end(), part.val.begin(), map);
  }
  TemplateBudget::charge_current(out.length());
  return value_of_text(std::move(out));
}

char lower_of(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace tenon
