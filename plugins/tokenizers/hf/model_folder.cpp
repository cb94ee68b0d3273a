// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "../engine/json_place.hpp"
#include "../engine/utf8.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr char kConfig[] = "tokenizer_config.json";

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

std::string* find_file(ModelFolder& folder, const char* name) {
  for (auto& [known, text] : folder.files) {
    if (known == name) {
      return &text;
    }
  }
  return nullptr;
}

// Templates for other uses than the default, such as tool_use.jinja. Files for exports have no
// folders, so all templates become a list in tokenizer_config.json, the older form.
void read_named_templates(const fs::path& directory, ModelFolder& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".jinja") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    return;
  }
  auto list = nlohmann::ordered_json::array();
  if (!folder.chat_template.empty()) {
    list.push_back({{"name", "default"}, {"template", folder.chat_template}});
  }
  for (const fs::path& path : paths) {
    const std::string text = read_text(path.string());
    if (invalid_utf8(text) != kNoOffset) {
      TENON_FAIL(TENON_INVALID,
                 "hf.file",
                 path.string(),
                 " is not valid UTF-8 at byte ",
                 invalid_utf8(text));
    }
    list.push_back({{"name", path.stem().string()}, {"template", text}});
  }
  const auto is_template = [](const auto& file) { return file.first == "chat_template.jinja"; };
  folder.files.erase(std::remove_if(folder.files.begin(), folder.files.end(), is_template),
                     folder.files.end());
  if (find_file(folder, kConfig) == nullptr) {
    folder.files.emplace_back(kConfig, "{}");
  }
  std::string& config = *find_file(folder, kConfig);
  auto json = nlohmann::ordered_json::parse(config);  // which parse_json() accepted
  json["chat_template"] = list;
  config = json.dump(2);
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
  for (const char* name : {kConfig, "special_tokens_map.json"}) {
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
  read_named_templates(parent / "additional_chat_templates", folder);
  if (folder.chat_template.find('\0') != std::string::npos) {
    TENON_FAIL(TENON_INVALID, "hf.file", "the chat template next to ", folder.file, " has a NUL");
  }
  return folder;
}

}  // namespace tenon
