// SPDX-License-Identifier: Apache-2.0
//
// What filters, methods, tests and functions of templates share: kinds of values, and the arguments
// of a call.
// Threads: any.
#pragma once

#include "host/chat/template_budget.hpp"
#include "host/chat/template_values.hpp"

#include <cstddef>
#include <cstdint>
#include <jinja/runtime.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// A call's arguments without the value that it is applied to; keyword arguments are value_kwarg.
using TemplateArguments = std::vector<TemplateValue>;

inline TemplateValue undefined() {
  return jinja::mk_val<jinja::value_undefined>();
}
inline TemplateValue value_of_bool(bool value) {
  return jinja::mk_val<jinja::value_bool>(value);
}
inline TemplateValue value_of_int(int64_t value) {
  return jinja::mk_val<jinja::value_int>(value);
}
inline bool is_text(const TemplateValue& value) {
  return jinja::is_val<jinja::value_string>(value);
}
inline bool is_list(const TemplateValue& value) {
  return jinja::is_val<jinja::value_array>(value);
}
inline bool is_object(const TemplateValue& value) {
  return jinja::is_val<jinja::value_object>(value);
}
inline bool is_whole_number(const TemplateValue& value) {
  return jinja::is_val<jinja::value_int>(value) || jinja::is_val<jinja::value_bool>(value);
}
inline bool is_any_number(const TemplateValue& value) {
  return is_whole_number(value) || jinja::is_val<jinja::value_float>(value);
}
inline double as_double(const TemplateValue& value) {
  return is_whole_number(value) ? static_cast<double>(value->val_int) : value->val_flt;
}

inline TemplateValue list_of(std::vector<TemplateValue> items) {
  TemplateBudget::charge_current(items.size() * sizeof(TemplateValue));
  return jinja::mk_val<jinja::value_array>(std::move(items));
}

// The arguments of one call, by position or keyword.
class GivenArguments {
 public:
  GivenArguments(const char* function, const TemplateArguments& all)
      : function_(function), all_(all) {}

  // Null if it is not given.
  const TemplateValue* find(size_t position, const char* keyword) const {
    size_t seen = 0;
    for (const TemplateValue& argument : all_) {
      const auto* const named = jinja::cast_val<jinja::value_kwarg>(argument);
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

// What a loop over the value visits.
//
// Errors   std::runtime_error for a value that is no collection
std::vector<TemplateValue> items_of(const TemplateValue& value);

}  // namespace tenon
