// SPDX-License-Identifier: Apache-2.0
//
// Operators, members, tests and functions of templates that the engine lacks, or that it computes
// differently from Jinja: it counts bytes instead of characters, and forgets which part of a string
// came from the input. The rest is the engine's own.
// Threads: any.
#pragma once

#include "host/chat/template_arguments.hpp"
#include "host/chat/template_values.hpp"

#include <jinja/runtime.h>
#include <string>

namespace tenon {

// Applies a test: `value is name(...)`.
//
// Errors   std::runtime_error, also for an unknown name
bool apply_test(const std::string& name,
                const TemplateValue& value,
                const TemplateArguments& arguments,
                jinja::context& context);

// Returns `object.name` and `object[key]`; an undefined value if there is none.
//
// Errors   std::runtime_error for a member of an undefined value, and for methods that change what
//          they are called on
TemplateValue attribute_of(const TemplateValue& object, const std::string& name);
TemplateValue item_of(const TemplateValue& object, const TemplateValue& key);
// Returns `object[start:stop:step]`; null: not given.
//
// Errors   std::runtime_error
TemplateValue slice_of(const TemplateValue& object,
                       const TemplateValue& start,
                       const TemplateValue& stop,
                       const TemplateValue& step);

// Returns the result of `a op b` for an operator other than `and` and `or`.
//
// Errors   std::runtime_error for types that the operator does not take
TemplateValue apply_operator(const std::string& op, const TemplateValue& a, const TemplateValue& b);

// The engine's own function of this name, bound to the value; null if it has none.
TemplateValue engine_function(const std::string& name, const TemplateValue& value);

// The function `strftime_now` of a date, such as "2026-01-31" or "2026-01-31T08:00:00"; of null: a
// function whose calls are errors.
//
// Errors   std::runtime_error for what is no date
TemplateValue clock_of_date(const nlohmann::ordered_json& date);

// Defines the functions that every template has: range, namespace, dict, raise_exception,
// strftime_now.
void define_functions(jinja::context& context);

}  // namespace tenon
