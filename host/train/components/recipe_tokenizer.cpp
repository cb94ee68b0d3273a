// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_tokenizer.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/plugin/tokenizer_proxy.hpp"

#include <functional>

namespace tenon {
namespace {

// Calls f(use) for each tokenizer in the options of a component, at any depth.
void visit_tokenizers(const ComponentUse& use, const std::function<void(const ComponentUse&)>& f) {
  for (const ComponentUse::Nested& nested : use.nested) {
    if (nested.use.kind == "tokenizer") {
      f(nested.use);
    }
    visit_tokenizers(nested.use, f);
  }
}

}  // namespace

std::optional<ComponentUse> recipe_tokenizer(const Recipe& recipe) {
  const ComponentUse* of_data = nullptr;
  const ComponentUse* first = nullptr;
  const auto note = [](const ComponentUse*& to, const ComponentUse& use) {
    to = to == nullptr && use.ref.empty() ? &use : to;
  };
  for_each_component(recipe, [&](const ComponentUse& use) {
    visit_tokenizers(use, [&](const ComponentUse& tokenizer) {
      note(first, tokenizer);
      if (use.pointer.starts_with("/data/train")) {
        note(of_data, tokenizer);
      }
    });
  });
  const ComponentUse* const found = of_data != nullptr ? of_data : first;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> tokenizer_files(const Recipe& recipe,
                                                                 ComponentFactory& factory) {
  const std::optional<ComponentUse> use = recipe_tokenizer(recipe);
  if (!use.has_value()) {
    return {};
  }
  try {
    const ComponentInstance instance = factory.create(*use, "tokenizer");
    return TokenizerProxy(instance).files();
  } catch (const Error& error) {
    log_warning(std::string("the export has no files of the tokenizer: ") + error.what());
    return {};
  }
}

}  // namespace tenon
