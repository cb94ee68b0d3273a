// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/recipe_tokenizer.hpp"

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

const ComponentUse* find_tokenizer(const Recipe& recipe) {
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
  return of_data != nullptr ? of_data : first;
}

}  // namespace tenon
