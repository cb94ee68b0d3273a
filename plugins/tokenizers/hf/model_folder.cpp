// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <filesystem>
#include <optional>

#include "../engine/json_place.hpp"
#include "../engine/utf8.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

std::string read_text(const std::string& path) {
  const StableFile file(path, "hf");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, text.size(), text.data());
  return text;
}

// The text of a special token: a string, or an object with "content".
std::optional<std::string> token_text(const JsonPlace& place) {
  if (place.value().is_string()) {
    return place.string();
  }
  if (place.value().is_object() && place.find("content")) {
    return place.at("content").string();
  }
  return std::nullopt;
}

void add_special_tokens(const JsonPlace& place, ModelFolder& folder) {
  constexpr std::string_view kSuffix = "_token";
  for (const auto& [key, value] : place.object().items()) {
    if (key.size() <= kSuffix.size() ||
        key.compare(key.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0 ||
        !(value.is_string() || value.is_object())) {
      continue;  // null, or a flag such as add_bos_token
    }
    const JsonPlace member = place.member(key, value);
    if (const auto text = token_text(member)) {
      folder.special_tokens.push_back({key, *text, member.name()});
    }
  }
}

// The template: a string, or a list of named ones, of which "default" counts.
std::string read_chat_template(const JsonPlace& place) {
  if (place.value().is_string()) {
    return place.string();
  }
  for (size_t i = 0; i < place.array_size(); ++i) {
    const JsonPlace one = place.at(i);
    if (one.at("name").string() == "default") {
      return one.at("template").string();
    }
  }
  place.fail("has no template named \"default\"");
}

}  // namespace

ModelFolder read_model_folder(const std::string& path) {
  ModelFolder folder;
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  folder.file = is_folder ? (fs::path(path) / "tokenizer.json").string() : path;
  folder.json = read_text(folder.file);
  folder.files.emplace_back("tokenizer.json", folder.json);
  const fs::path parent = fs::path(folder.file).parent_path();
  // The first file that names a token counts.
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string neighbor = (parent / name).string();
    if (!fs::exists(neighbor, error)) {
      continue;
    }
    folder.files.emplace_back(name, read_text(neighbor));
    const nlohmann::json json = parse_json(folder.files.back().second, neighbor, "hf.file");
    const JsonPlace place(json, neighbor, "hf.file");
    add_special_tokens(place, folder);
    if (const auto chat_template = place.find("chat_template")) {
      folder.chat_template = read_chat_template(*chat_template);
    }
  }
  const std::string jinja = (parent / "chat_template.jinja").string();
  if (fs::exists(jinja, error)) {
    folder.chat_template = read_text(jinja);
    folder.files.emplace_back("chat_template.jinja", folder.chat_template);
    if (invalid_utf8(folder.chat_template) != kNoOffset) {
      TENON_FAIL(TENON_INVALID,
                 "hf.file",
                 jinja,
                 " is not valid UTF-8 at byte ",
                 invalid_utf8(folder.chat_template));
    }
  }
  if (folder.chat_template.find('\0') != std::string::npos) {
    TENON_FAIL(TENON_INVALID, "hf.file", "the chat template next to ", folder.file, " has a NUL");
  }
  return folder;
}

}  // namespace tenon
