// SPDX-License-Identifier: Apache-2.0
//
// Recipes that are nearly right end in a recipe or in an error of the catalogue. A case is the text
// of a recipe file.
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/recipe_case.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::string make_recipe(Mutator& mutator) {
  static const std::vector<std::string> corpus = corpus_recipes();
  static const std::vector<json> values = [] {
    std::vector<json> parsed;
    for (const std::string& text : corpus) {
      parsed.push_back(json::parse(text, nullptr, true, /*ignore_comments=*/true));
    }
    return parsed;
  }();
  static const std::vector<std::string> words = [] {
    std::vector<std::string> texts = {
        "//", "/*", "*/", "{}", "[]", ",", ": ", "null", "\\u0000", "\\ud800"};
    for (const std::string& key : recipe_words().keys) {
      texts.push_back(json(key).dump() + ": ");
    }
    for (const json& value : recipe_words().values) {
      texts.push_back(value.dump() + ", ");
    }
    return texts;
  }();
  if (mutator.one_in(4)) {
    return mutator.mutated(mutator.pick(corpus), words, corpus);
  }
  json recipe = mutator.pick(values);
  for (std::size_t count = 1 + mutator.below(3); count > 0; --count) {
    mutate_json(recipe, mutator, recipe_words());
  }
  std::string text = json_text(recipe);
  return mutator.one_in(8) ? mutator.mutated(std::move(text), words, corpus) : text;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "recipe_fuzz", .make = tenon::make_recipe, .judge = [](const std::string& text) {
         return tenon::judge_recipe(text, {});
       }});
}
