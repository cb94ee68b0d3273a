// SPDX-License-Identifier: Apache-2.0
//
// The chat templates that a sample can be rendered with, beside the tokenizer's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Names of the templates of Tenon, see host/chat/templates.
std::vector<std::string> tagged_template_names();

// The name for the family that a template is of; null if there is none.
const char* tagged_template_for(const std::string& template_text);

// Files of a tokenizer, by name and content.
using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;

// The template for chats with tools among the files: "tool_use" of the list in
// tokenizer_config.json. "" if there is none, or if chat_template.jinja takes the place of the
// list.
std::string tool_template_of(const TokenizerFiles& files);

}  // namespace tenon
