// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/recipe_case.hpp"

#include "host/error/catalogue.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json component_list() {
  return json::parse(
      read_corpus_file((build_dir() / "tests" / "fuzz" / "components.json").string()));
}

// What all plugins offer, and what only a bad plugin would: a type of two plugins, a schema that is
// none, a plugin that is refused.
class ListedCatalog : public ComponentCatalog {
 public:
  ListedCatalog() {
    for (const json& component : component_list()) {
      const std::string schema =
          component.contains("options_schema") ? component["options_schema"].dump() : "";
      add(component["kind"],
          component["type"],
          {component["plugin"]["id"], component["plugin"]["file"], schema});
    }
    add("loss", "twice", {"com.example.one", "one.so", "{}"});
    add("loss", "twice", {"com.example.two", "two.so", "{}"});
    add("hook", "bad_schema", {"com.example.bad", "bad.so", R"({"type": "objct"})"});
    add("hook", "no_schema", {"com.example.no", "no.so", "{,"});
    add("hook", "refused", {"com.example.refused", "refused.so", ""});
  }

  std::vector<CatalogEntry> find(const std::string& kind, const std::string& name) const override {
    const std::size_t slash = name.find('/');
    const std::string type = slash == std::string::npos ? name : name.substr(slash + 1);
    const auto offers = offers_.find({kind, type});
    if (offers == offers_.end()) {
      return {};
    }
    std::vector<CatalogEntry> found;
    for (const CatalogEntry& entry : offers->second) {
      if (slash == std::string::npos || entry.plugin_id == name.substr(0, slash)) {
        found.push_back(entry);
      }
    }
    if (!found.empty() && found.front().plugin_id == "com.example.refused") {
      throw Error("plugin.crashed", "refused.so (com.example.refused 1.0.0) crashed");
    }
    return found;
  }

  std::vector<std::string> types_of(const std::string& kind) const override {
    std::set<std::string> types;
    for (const auto& [name, entries] : offers_) {
      if (name.first == kind) {
        types.insert(name.second);
      }
    }
    return {types.begin(), types.end()};
  }

  std::vector<std::string> kinds() const override {
    std::set<std::string> kinds;
    for (const auto& [name, entries] : offers_) {
      kinds.insert(name.first);
    }
    return {kinds.begin(), kinds.end()};
  }

  std::string searched() const override { return "build/plugins"; }

 private:
  void add(const std::string& kind, const std::string& type, CatalogEntry entry) {
    offers_[{kind, type}].push_back(std::move(entry));
  }

  std::map<std::pair<std::string, std::string>, std::vector<CatalogEntry>> offers_;
};

std::optional<std::string> test_environment(const std::string& name) {
  if (name == "HERE") {
    return "here";
  }
  return name == "BYTES" ? std::optional<std::string>("a\xff") : std::nullopt;
}

void check_id(const std::string& id) {
  if (find_error(id) == nullptr) {
    throw FuzzFinding("the catalogue has no error " + id);
  }
}

// Text files below `folder`.
void add_recipes_of(const fs::path& folder, std::vector<std::string>& texts) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    texts.push_back(read_corpus_file(file.string()));
  }
}

}  // namespace

std::vector<std::string> corpus_recipes() {
  std::vector<std::string> texts;
  for (const char* folder :
       {"tests/fuzz/corpus", "recipes", "tests/bench/recipes", "tests/recipes/trace"}) {
    add_recipes_of(source_dir() / folder, texts);
  }
  return texts;
}

const JsonWords& recipe_words() {
  static const JsonWords words = [] {
    JsonWords all;
    add_words_of(recipe_schema(), all);
    add_words_of(component_list(), all);
    for (const std::string& text : corpus_recipes()) {
      add_words_of(json::parse(text, nullptr, true, /*ignore_comments=*/true), all);
    }
    for (const char* type :
         {"twice", "com.example.one/twice", "bad_schema", "no_schema", "refused"}) {
      all.values.emplace_back(type);
    }
    for (const char* text : {"/data/train/options/tokenizer",
                             "/data/eval/near/options/tokenizer",
                             "/model",
                             "${ENV:BYTES}"}) {
      all.values.emplace_back(text);
    }
    sort_words(all);
    return all;
  }();
  return words;
}

std::string judge_recipe(const std::string& text, const std::vector<std::string>& sets) {
  static const ListedCatalog catalog;
  static const MemoryFile file("recipe");
  const auto load = [](const std::string& content, const std::vector<std::string>& with) {
    file.write(content);
    return load_recipe(
        {.path = file.path(), .sets = with, .compute_threads = 2, .environment = test_environment},
        catalog);
  };
  std::string frozen;
  try {
    frozen = frozen_recipe(load(text, sets));
  } catch (const RecipeErrors& errors) {
    check_id(errors.id());
    check_fuzz_message(errors.id(), errors.message());
    for (const Problem& problem : errors.problems()) {
      check_id(problem.id);
      check_fuzz_message(problem.id, render(problem));
    }
    return errors.problems().front().id;
  } catch (const Error& error) {
    check_id(error.id());
    check_fuzz_message(error.id(), error.message());
    return error.id();
  }
  std::string again;
  try {
    again = frozen_recipe(load(frozen, {}));
  } catch (const Error& error) {
    throw FuzzFinding("it is accepted, but not as it is frozen: " + error.message() + "\n" +
                      frozen);
  }
  if (again != frozen) {
    throw FuzzFinding("it freezes to another recipe than its frozen form:\n" + frozen + "\n" +
                      again);
  }
  return kFuzzAccepted;
}

}  // namespace tenon
