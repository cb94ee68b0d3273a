// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_cases.hpp"

#include <utility>

namespace tenon {

using nlohmann::json;

JsonCases::JsonCases(std::vector<std::string> seeds)
    : seeds_(std::move(seeds)), texts_({"{}", "[]", ",", ": ", "null", "\\u0000", "\\ud800"}) {
  for (const std::string& seed : seeds_) {
    values_.push_back(json::parse(seed));
    add_words_of(values_.back(), words_);
  }
  sort_words(words_);
  for (const std::string& key : words_.keys) {
    texts_.push_back(json(key).dump() + ": ");
  }
  for (const json& value : words_.values) {
    texts_.push_back(value.dump() + ", ");
  }
}

std::string JsonCases::make(Mutator& mutator) const {
  if (mutator.one_in(4)) {
    return mutator.mutated(mutator.pick(seeds_), texts_, seeds_);
  }
  json value = mutator.pick(values_);
  for (std::size_t count = mutator.below(4); count > 0; --count) {
    mutate_json(value, mutator, words_);
  }
  std::string text = json_text(value);
  return mutator.one_in(8) ? mutator.mutated(std::move(text), texts_, seeds_) : text;
}

}  // namespace tenon
