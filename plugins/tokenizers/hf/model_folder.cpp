// SPDX-License-Identifier: Apache-2.0
#include "model_folder.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "../engine/json_node.hpp"
#include "../engine/text_file.hpp"
#include "../engine/utf8.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr char kConfig[] = "tokenizer_config.json";

// Far above existing files: templates have about 30 KB.
constexpr int64_t kMostConfigBytes = 50'000'000;
constexpr int64_t kMostTemplateBytes = 1'000'000;

std::string read_file(const std::string& path, int64_t most_bytes) {
  return read_text(path, "hf", most_bytes);
}

std::string read_template(const std::string& path) {
  std::string text = read_file(path, kMostTemplateBytes);
  if (const size_t at = invalid_utf8(text); at != kNoOffset) {
    TENON_FAIL(TENON_INVALID, "hf.file", path, " is not valid UTF-8 at byte ", at);
  }
  return text;
}

// The text of a special token: a string, or an object with "content".
std::optional<std::string> token_text(const JsonNode& node) {
  if (node.value().is_string()) {
    return node.string();
  }
  if (node.value().is_object() && node.find("content")) {
    return node.at("content").string();
  }
  return std::nullopt;
}

void add_special_tokens(const JsonNode& node, ModelFolder& folder) {
  constexpr std::string_view kSuffix = "_token";
  for (const auto& [key, value] : node.object().items()) {
    if (key.size() <= kSuffix.size() ||
        key.compare(key.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0 ||
        !(value.is_string() || value.is_object())) {
      continue;  // null, or a flag such as add_bos_token
    }
    const JsonNode member = node.member(key, value);
    if (const auto text = token_text(member)) {
      folder.special_tokens.push_back({key, *text, member.name()});
    }
  }
}

// The template: a string, or a list of named ones, of which "default" counts.
std::string read_chat_template(const JsonNode& node) {
  if (node.value().is_string()) {
    return node.string();
  }
  for (size_t i = 0; i < node.array_size(); ++i) {
    const JsonNode one = node.at(i);
    if (one.at("name").string() == "default") {
      return one.at("template").string();
    }
  }
  node.fail("has no template named \"default\"");
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
    list.push_back({{"name", path.stem().string()}, {"template", read_template(path.string())}});
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

// The first bytes of a file.
std::string start_of(const std::string& path, size_t n) {
  const StableFile file(path, "hf");
  std::string text(std::min(n, static_cast<size_t>(file.size())), '\0');
  file.read(0, text.size(), text.data());
  return text;
}

// Names the file of another kind that a folder without tokenizer.json has, with what reads it.
[[noreturn]] void fail_without_tokenizer(const fs::path& folder) {
  std::error_code error;
  std::string advice = "pass a folder with a tokenizer.json";
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    const fs::path model = folder / name;
    if (fs::exists(model, error)) {
      // SentencePiece models are protocol buffers, and ranks of tiktoken are lines of text.
      const bool is_proto = start_of(model.string(), 1) == "\n";
      advice = std::string("use the tokenizer \"") + (is_proto ? "sentencepiece" : "tiktoken") +
               "\" with its " + name +
               ", or write a tokenizer.json with transformers: "
               "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
      break;
    }
  }
  if (fs::exists(folder / "vocab.json", error) && fs::exists(folder / "merges.txt", error)) {
    advice =
        "it has vocab.json and merges.txt; write a tokenizer.json with transformers: "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
  }
  if (fs::is_directory(folder / "snapshots", error)) {
    advice = "it is a folder of the Hugging Face cache; pass one of its snapshots, " +
             (folder / "snapshots/REVISION").string();
  }
  TENON_FAIL(TENON_NOT_FOUND, "hf.open", folder.string(), " has no tokenizer.json: ", advice);
}

// Keeps generation_config.json for generation and exports. Without one, the ids of special tokens
// in config.json count, as in transformers.
void add_generation_config(const fs::path& parent, ModelFolder& folder) {
  constexpr const char* kName = "generation_config.json";
  std::error_code error;
  const std::string own = (parent / kName).string();
  if (fs::exists(own, error)) {
    folder.files.emplace_back(kName, read_file(own, kMostConfigBytes));
    return;
  }
  const std::string model = (parent / "config.json").string();
  if (!fs::exists(model, error)) {
    return;
  }
  const nlohmann::json config = parse_json(read_file(model, kMostConfigBytes), model, "hf.file");
  nlohmann::json ids = nlohmann::json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.is_object() && config.contains(key) && !config.at(key).is_null()) {
      ids[key] = config.at(key);
    }
  }
  if (ids.contains("eos_token_id")) {
    folder.files.emplace_back(kName, ids.dump(2) + "\n");
  }
}

}  // namespace

ModelFolder read_model_folder(const std::string& path) {
  ModelFolder folder;
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  folder.file = is_folder ? (fs::path(path) / "tokenizer.json").string() : path;
  if (is_folder && !fs::exists(folder.file, error)) {
    fail_without_tokenizer(path);
  }
  folder.json = read_file(folder.file, kMostTokenizerBytes);
  folder.files.emplace_back("tokenizer.json", folder.json);
  const fs::path parent = fs::path(folder.file).parent_path();
  // The first file that names a token counts.
  for (const char* name : {kConfig, "special_tokens_map.json"}) {
    const std::string neighbor = (parent / name).string();
    if (!fs::exists(neighbor, error)) {
      continue;
    }
    folder.files.emplace_back(name, read_file(neighbor, kMostConfigBytes));
    const nlohmann::json json = parse_json(folder.files.back().second, neighbor, "hf.file");
    const JsonNode node(json, neighbor, "hf.file");
    add_special_tokens(node, folder);
    if (const auto chat_template = node.find("chat_template")) {
      folder.chat_template = read_chat_template(*chat_template);
    }
  }
  add_generation_config(parent, folder);
  const std::string jinja = (parent / "chat_template.jinja").string();
  if (fs::exists(jinja, error)) {
    folder.chat_template = read_template(jinja);
    folder.files.emplace_back("chat_template.jinja", folder.chat_template);
  }
  read_named_templates(parent / "additional_chat_templates", folder);
  if (folder.chat_template.find('\0') != std::string::npos) {
    TENON_FAIL(TENON_INVALID, "hf.file", "the chat template next to ", folder.file, " has a NUL");
  }
  return folder;
}

}  // namespace tenon
