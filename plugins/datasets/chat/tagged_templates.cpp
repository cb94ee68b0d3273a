// SPDX-License-Identifier: Apache-2.0
#include "tagged_templates.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>

#include "json_sample.hpp"
#include "tagged_template_files.hpp"

namespace tenon {

std::vector<std::string> tagged_template_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : tagged_template_files()) {
    names.emplace_back(file);
  }
  return names;
}

const char* tagged_template_for(const std::string& template_text) {
  const auto has = [&](const char* part) { return template_text.find(part) != std::string::npos; };
  if (has("<|im_start|>") && has("</think>")) {
    return has("preserve_thinking") ? "qwen3_6" : has("<function=") ? "qwen3_5" : "qwen3";
  }
  return has("<|start|>") && has("<|channel|>") ? "gpt_oss" : nullptr;
}

std::string tool_template_of(const TokenizerFiles& files) {
  constexpr char kName[] = "tool_use";
  std::string found;
  for (const auto& [file, text] : files) {
    if (file == "chat_template.jinja") {
      return "";
    }
    if (file != "tokenizer_config.json") {
      continue;
    }
    // Not parse_inner(): `model_max_length` of transformers has 31 digits.
    const Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto templates = config.is_object() ? config.find("chat_template") : config.end();
    if (templates == config.end() || !templates->is_array()) {
      continue;
    }
    for (const Json& one : *templates) {
      if (one.is_object() && one.value("name", "") == kName && one.contains("template") &&
          one["template"].is_string()) {
        found = one["template"].get<std::string>();
      }
    }
  }
  return found;
}

}  // namespace tenon
