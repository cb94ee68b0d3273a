// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_functions.hpp"

#include "host/chat/code_points.hpp"
#include "host/chat/string_methods.hpp"
#include "host/chat/template_budget.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace tenon {
namespace {

using jinja::cast_val;
using jinja::is_val;
using jinja::mk_val;

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

TemplateValue range_of(const jinja::func_args& arguments) {
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
}

// The date in the format of the first argument.
TemplateValue date_text(const jinja::func_args& arguments, const std::tm& date) {
  const std::string format = python_text(arguments.get_pos(0)).str();
  std::array<char, 256> text{};
  const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &date);
  return value_of_text(std::string(text.data(), size));
}

}  // namespace

TemplateValue engine_function(const std::string& name, const TemplateValue& value) {
  const jinja::func_builtins& functions = value->get_builtins();
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : mk_val<jinja::value_func>(name, found->second, value);
}

bool apply_test(const std::string& name,
                const TemplateValue& value,
                const TemplateArguments& arguments,
                jinja::context& context) {
  const GivenArguments given(name.c_str(), arguments);
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
    if (const TextMethod function = find_string_method(name)) {
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

void define_functions(jinja::context& context) {
  const auto define = [&](const char* name, const jinja::func_handler& function) {
    context.set_val(name, mk_val<jinja::value_func>(name, function));
  };
  define("range", range_of);
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
    std::tm now{};
    localtime_r(&arguments.ctx.current_time, &now);
    return date_text(arguments, now);
  });
}

TemplateValue clock_of_date(const nlohmann::ordered_json& date) {
  if (date.is_null()) {
    return mk_val<jinja::value_func>("strftime_now", [](const jinja::func_args&) -> TemplateValue {
      throw std::runtime_error(
          "the template prints the date of today (strftime_now), and another day gives other "
          "tokens; set `date` to a day, such as \"2026-01-31\"");
    });
  }
  std::tm day{};
  const std::string text = date.is_string() ? date.get<std::string>() : date.dump();
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &day);
  if (end != nullptr && *end == 'T') {
    end = strptime(end + 1, "%H:%M:%S", &day);
  }
  if (end == nullptr || *end != '\0') {
    throw std::runtime_error("the date is " + text + ", expected YYYY-MM-DD");
  }
  const std::time_t seconds = timegm(&day);  // sets the day of the week
  gmtime_r(&seconds, &day);
  return mk_val<jinja::value_func>("strftime_now", [day](const jinja::func_args& arguments) {
    return date_text(arguments, day);
  });
}

}  // namespace tenon
