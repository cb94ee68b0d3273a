// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/tokenizer_files.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/train/components/recipe_tokenizer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

std::optional<ComponentInstance> created(const ComponentUse& use, ComponentFactory& factory) {
  try {
    return factory.create(use, "tokenizer");
  } catch (const Error& error) {
    log_warning(std::string("the export has no tokenizer, because it cannot be created: ") +
                error.what());
    return std::nullopt;
  }
}

}  // namespace

void add_tokenizer_files(const Recipe& recipe, ComponentFactory& factory, WeightPlaces& places) {
  const ComponentUse* const use = find_tokenizer(recipe);
  if (use == nullptr) {
    return;
  }
  const std::optional<ComponentInstance> instance = created(*use, factory);
  if (!instance.has_value()) {
    return;
  }
  for (auto& [name, text] : TokenizerProxy(*instance).files()) {
    const auto is_same = [&name](const LayoutFile& file) { return file.name == name; };
    if (std::ranges::any_of(places.files, is_same)) {
      instance->identity().fail_result("files passed \"" + name +
                                       "\", which the layout of the model has already");
    }
    places.files.push_back({.name = name, .text = std::move(text)});
  }
}

}  // namespace tenon
