// SPDX-License-Identifier: Apache-2.0
//
// Filters of templates.
// Threads: any.
#pragma once

#include "host/chat/template_arguments.hpp"

#include <jinja/runtime.h>
#include <string>

namespace tenon {

// Applies a filter: `value | name(...)`.
//
// Errors   std::runtime_error, also for an unknown name
TemplateValue apply_filter(const std::string& name,
                           const TemplateValue& value,
                           const TemplateArguments& arguments,
                           jinja::context& context);

}  // namespace tenon
