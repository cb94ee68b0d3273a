// SPDX-License-Identifier: Apache-2.0

#include "host/cli/failure_text.hpp"

#include "host/cli/help_text.hpp"
#include "host/error/plugin_text.hpp"
#include "host/json/problem.hpp"

namespace tenon {

std::string failure_text(const Error& error, const std::string& program) {
  if (const auto* const errors = dynamic_cast<const RecipeErrors*>(&error)) {
    return printable_text(errors->report()) + "\n";  // each problem has its own id
  }
  std::string text = printable_text(program + ": " + error.what()) + "\n";
  if (error.id().starts_with("usage.")) {
    text += usage_line(program) + "\n" + program + " --help lists all options\n";
  }
  return text;
}

}  // namespace tenon
