// SPDX-License-Identifier: Apache-2.0
//
// Chat templates with {% generation %} tags around the answers, for model families whose own
// templates have none. Each renders the text of the family's template. The files are in templates/.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// Names and texts.
const std::vector<std::pair<std::string_view, std::string_view>>& tagged_template_files();

std::vector<std::string> tagged_template_names();
// "" for a name that is unknown.
std::string tagged_template_text(const std::string& name);

// The name for the family that a template is of; null if there is none.
const char* tagged_template_for(const std::string& template_text);

// Files of a tokenizer, by name and content.
using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;

// The template for chats with tools among the files: "tool_use" of the list in
// tokenizer_config.json. "" if there is none, or if chat_template.jinja takes the place of the
// list.
std::string tool_template_of(const TokenizerFiles& files);

}  // namespace tenon
