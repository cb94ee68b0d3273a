// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings in templates: they count characters, and keep which part of a string came from
// the input.
// Threads: any.
#pragma once

#include "host/chat/template_arguments.hpp"
#include "host/chat/template_values.hpp"

#include <functional>
#include <string>
#include <vector>

namespace tenon {

using TextMethod = TemplateValue (*)(const TemplateString& text,
                                     const TemplateArguments& arguments);

// Null if strings have no such method, or the engine's own serves.
TextMethod find_string_method(const std::string& name);

// The pieces of a text between separators, from the left or from the right.
//
// Errors   std::runtime_error
TemplateValue split_text(const TemplateString& text,
                         const TemplateArguments& arguments,
                         bool from_right);
TemplateString joined(const std::vector<TemplateValue>& items, const TemplateString& between);
// Maps each byte; letters beyond ASCII stay as they are.
TemplateValue mapped(const TemplateString& text, const std::function<char(char)>& map);
char lower_of(char c);

}  // namespace tenon
