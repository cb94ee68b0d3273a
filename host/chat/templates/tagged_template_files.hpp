// SPDX-License-Identifier: Apache-2.0
//
// Chat templates with {% generation %} tags around the answers, for model families whose own
// templates have none. Each renders the text of the family's template.
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// Names and texts.
const std::vector<std::pair<std::string_view, std::string_view>>& tagged_template_files();

// "" for a name that is unknown.
inline std::string tagged_template_text(std::string_view name) {
  for (const auto& [file, text] : tagged_template_files()) {
    if (file == name) {
      return std::string(text);
    }
  }
  return "";
}

}  // namespace tenon
