// SPDX-License-Identifier: Apache-2.0
//
// Values of --set that are nearly right end in a recipe or in an error of the catalogue. A case is
// one to three of them with a zero byte between each two, as an argument itself can hold none.
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/recipe_case.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct Target {
  std::string path;
  json value;  // what stands there
};

// All values below `value`, by paths that are dotted, with brackets, and pointers.
void add_targets(const json& value,
                 const std::string& dotted,
                 const std::string& pointer,
                 std::vector<Target>& targets) {
  if (!pointer.empty()) {
    targets.push_back({dotted, value});
    targets.push_back({pointer, value});
  }
  const std::string before = dotted.empty() ? "" : dotted + ".";
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      add_targets(child, before + key, pointer + "/" + key, targets);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string index = std::to_string(i);
      add_targets(value[i], before + index, pointer + "/" + index, targets);
      targets.push_back({dotted + "[" + index + "]", value[i]});
    }
  }
}

const std::string& base_recipe() {
  static const std::string text =
      read_corpus_file((source_dir() / "recipes" / "quickstart.json").string());
  return text;
}

// Those of the recipe and those of the one that has everything.
const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> found;
    for (const std::string& text : {base_recipe(), corpus_recipes().front()}) {
      add_targets(json::parse(text, nullptr, true, /*ignore_comments=*/true), "", "", found);
    }
    return found;
  }();
  return all;
}

std::string make_path(std::string path, Mutator& mutator) {
  while (mutator.one_in(6)) {
    static const std::vector<std::string> kJoints = {
        ".", "/", "[", "]", "..", "~1", "[0]", "[9]", ".0", "=", "~"};
    path += mutator.pick(kJoints);
    path += mutator.pick(recipe_words().keys);
  }
  const std::vector<std::string>& keys = recipe_words().keys;
  return mutator.one_in(8) ? mutator.mutated(std::move(path), keys, keys) : path;
}

std::string make_value(const json& old, Mutator& mutator) {
  const JsonWords& words = recipe_words();
  switch (mutator.below(8)) {
    case 0:
      return mutator.odd_number();
    case 1:
      return mutator.odd_bytes();
    case 2:
      return mutator.mutated(json_text(any_value(mutator, words)), words.keys, words.keys);
    case 3:
      return json_text(any_value(mutator, words));
    default: {
      json value = old;
      mutate_json(value, mutator, words);
      return json_text(value);
    }
  }
}

std::string make_sets(Mutator& mutator) {
  std::string sets;
  for (std::size_t count = 1 + mutator.below(3); count > 0; --count) {
    const Target& target = mutator.pick(targets());
    sets += make_path(target.path, mutator) + (mutator.one_in(30) ? "" : "=") +
            make_value(target.value, mutator);
    sets += count > 1 ? std::string(1, '\0') : "";
  }
  return sets;
}

std::string judge_sets(const std::string& input) {
  std::vector<std::string> sets;
  for (std::size_t at = 0; at <= input.size();) {
    const std::size_t end = std::min(input.find('\0', at), input.size());
    sets.push_back(input.substr(at, end - at));
    at = end + 1;
  }
  return judge_recipe(base_recipe(), sets);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc, argv, {.name = "set_fuzz", .make = tenon::make_sets, .judge = tenon::judge_sets});
}
