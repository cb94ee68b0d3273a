// SPDX-License-Identifier: Apache-2.0
//
// JSON values turned into others that are nearly right: changes that keep the text well-formed, so
// that what reads values is tested and not only what reads text.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/fuzz/mutator.hpp"

namespace tenon {

// What changes may put in.
struct JsonWords {
  std::vector<std::string> keys;
  std::vector<nlohmann::json> values;
};

// Adds every key and every value of `value` that is no container; of a schema, also the names and
// the choices it describes.
void add_words_of(const nlohmann::json& value, JsonWords& words);

// Each word once, in an order of their own.
void sort_words(JsonWords& words);

// A value: one of the words, a number of the borders, a string of odd bytes, a list or an object of
// such, rarely a deep or a long one.
nlohmann::json any_value(Mutator& mutator, const JsonWords& words);

// A value of the type that `old` has, mostly.
nlohmann::json like_value(const nlohmann::json& old, Mutator& mutator, const JsonWords& words);

// Sets, adds, removes, exchanges or renames one value somewhere in `root`.
void mutate_json(nlohmann::json& root, Mutator& mutator, const JsonWords& words);

// As text; bytes of strings that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& value);

}  // namespace tenon
