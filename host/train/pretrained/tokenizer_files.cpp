// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/tokenizer_files.hpp"

#include "host/error/error.hpp"
#include "host/json/bounded_json.hpp"
#include "host/log/log.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/train/components/end_tokens.hpp"
#include "host/train/components/recipe_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using ConfigJson = nlohmann::ordered_json;

constexpr char kModelConfig[] = "config.json";
constexpr char kTemplateFile[] = "chat_template.jinja";

std::optional<ComponentInstance> created(const ComponentUse& use, ComponentFactory& factory) {
  try {
    return factory.create(use, "tokenizer");
  } catch (const Error& error) {
    log_warning(std::string("the export has no tokenizer, because it cannot be created: ") +
                error.what());
    return std::nullopt;
  }
}

LayoutFile* file_named(LayoutMap& map, const std::string& name) {
  const auto found = std::ranges::find(map.files, name, &LayoutFile::name);
  return found == map.files.end() ? nullptr : &*found;
}

// The ids of special tokens that a model can have; an id past its vocabulary is an error in
// transformers.
struct TokenIds {
  int64_t bos = -1;
  std::vector<int64_t> ends;
  int64_t pad = -1;
  int64_t vocab_size;

  TokenIds(const TokenizerInfo& info, std::vector<int64_t> all_ends, int64_t num_tokens)
      : vocab_size(num_tokens) {
    const auto fits = [num_tokens](int64_t id) { return id >= 0 && id < num_tokens; };
    bos = fits(info.bos) ? info.bos : -1;
    pad = fits(info.pad) ? info.pad : -1;
    std::erase_if(all_ends, [&](int64_t id) { return !fits(id); });
    ends = std::move(all_ends);
  }

  static ConfigJson id_or_null(int64_t id) { return id < 0 ? ConfigJson() : ConfigJson(id); }
  ConfigJson end_json() const {
    return ends.empty()       ? ConfigJson()
           : ends.size() == 1 ? ConfigJson(ends.front())
                              : ConfigJson(ends);
  }
  // An id that only the file has stays, since the tokenizer may not know it.
  void set_in(ConfigJson& config) const {
    config["eos_token_id"] = end_json();
    for (const auto& [name, id] : {std::pair("bos_token_id", bos), {"pad_token_id", pad}}) {
      const auto known = config.find(name);
      const bool stays = id < 0 && known != config.end() && known->is_number_unsigned() &&
                         known->get<int64_t>() < vocab_size;
      config[name] = stays ? *known : id_or_null(id);
    }
  }
};

// Returns the size of the vocabulary in a config.json; unlimited without one.
int64_t vocab_size_of(const ConfigJson& config) {
  const auto size = config.find("vocab_size");
  return size != config.end() && size->is_number_integer() ? size->get<int64_t>()
                                                           : std::numeric_limits<int64_t>::max();
}

// The generation_config.json of the tokenizer's folder with these ids, or a new one.
std::string generation_config(const std::string& known, const TokenIds& ids) {
  ConfigJson config = is_json_object(known) ? ConfigJson::parse(known) : ConfigJson::object();
  ids.set_in(config);
  return config.dump(2) + "\n";
}

}  // namespace

void add_tokenizer_files(const Recipe& recipe, ComponentFactory& factory, LayoutMap& map) {
  const ComponentUse* const use = find_tokenizer(recipe);
  if (use == nullptr) {
    return;
  }
  const std::optional<ComponentInstance> instance = created(*use, factory);
  if (!instance.has_value()) {
    return;
  }
  const TokenizerProxy tokenizer(*instance);
  const std::string chat_template = trained_chat_template(recipe, tokenizer);
  auto files = tokenizer.files();
  std::vector<int64_t> ends = end_tokens(tokenizer, chat_template, files);
  std::string known_config;
  for (auto& [name, text] : files) {
    if (name == kGenerationConfig) {
      known_config = std::move(text);
      continue;
    }
    if (name == kTemplateFile && !chat_template.empty()) {
      continue;
    }
    if (file_named(map, name) != nullptr) {
      instance->identity().fail_result("files passed \"" + name +
                                       "\", which the layout of the model has already");
    }
    map.files.push_back({.name = name, .text = std::move(text)});
  }
  if (!files.empty() && !chat_template.empty()) {
    map.files.push_back({.name = kTemplateFile, .text = chat_template});
  }
  LayoutFile* const config = file_named(map, kModelConfig);
  ConfigJson model = config != nullptr ? ConfigJson::parse(config->text) : ConfigJson();
  const TokenIds ids(tokenizer.info(), std::move(ends), vocab_size_of(model));
  if (config != nullptr) {
    ids.set_in(model);
    config->text = model.dump(2) + "\n";
  }
  map.files.push_back({.name = kGenerationConfig, .text = generation_config(known_config, ids)});
}

}  // namespace tenon
