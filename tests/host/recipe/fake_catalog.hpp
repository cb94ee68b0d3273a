// SPDX-License-Identifier: Apache-2.0
//
// A catalog without plugins, and recipes that fit it, for the tests of host/recipe.
#pragma once

#include "host/recipe/component_catalog.hpp"
#include "host/recipe/recipe.hpp"

#include <map>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.hpp"

namespace tenon {

// Offers llama and mlp (model), text and numbers (dataset), byte and bpe (tokenizer),
// cross_entropy and, from two plugins, mse (loss), adamw and sgd (optimizer), cosine
// (lr_scheduler), early_stop and event_trace (hook), jsonl (metric_sink), and broken (hook), whose
// schema is none.
class FakeCatalog : public ComponentCatalog {
 public:
  FakeCatalog();

  std::vector<CatalogEntry> find(const std::string& kind, const std::string& name) const override;
  std::vector<std::string> types_of(const std::string& kind) const override;
  std::vector<std::string> kinds() const override;
  std::string searched() const override { return "build/plugins, /opt/plugins"; }

  void add(const std::string& kind, const std::string& type, const CatalogEntry& entry);

 private:
  std::map<std::string, std::map<std::string, std::vector<CatalogEntry>>> offers_;
};

// The smallest recipe that is complete.
extern const char* const kSmallRecipe;

// Writes `text` as `folder`/recipe.json and loads it with `sets`. One compute thread.
Recipe load_text(const ScratchFolder& folder,
                 const std::string& text,
                 const std::vector<std::string>& sets = {});

// The report of the RecipeErrors that loading `text` throws, with the folder's name cut out of it;
// "no error" if it throws none.
std::string report_of(const std::string& text, const std::vector<std::string>& sets = {});

}  // namespace tenon
