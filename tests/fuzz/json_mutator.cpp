// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_mutator.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tenon {

using nlohmann::json;

void add_words_of(const json& value, JsonWords& words) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      words.keys.push_back(key);
      add_words_of(child, words);
    }
  } else if (value.is_array()) {
    for (const json& child : value) {
      add_words_of(child, words);
    }
  } else if (!value.is_string() || value.get_ref<const std::string&>().size() < 40) {
    words.values.push_back(value);
  }
}

void sort_words(JsonWords& words) {
  std::ranges::sort(words.keys);
  words.keys.erase(std::unique(words.keys.begin(), words.keys.end()), words.keys.end());
  // Kinds first: 1 and 1.0 are equal for the library, and not for a recipe.
  const auto order = [](const json& value) { return std::pair(value.type(), value.dump()); };
  std::ranges::sort(words.values, {}, order);
  const auto same = [&](const json& a, const json& b) { return order(a) == order(b); };
  words.values.erase(std::unique(words.values.begin(), words.values.end(), same),
                     words.values.end());
}

json any_value(Mutator& mutator, const JsonWords& words) {
  switch (mutator.below(12)) {
    case 0: {
      static const std::vector<json> kBorders = {0,
                                                 1,
                                                 -1,
                                                 2147483648,
                                                 INT64_MAX,
                                                 INT64_MIN,
                                                 UINT64_MAX,
                                                 1.5,
                                                 -0.0,
                                                 1e300,
                                                 5e-324,
                                                 9007199254740993.0,
                                                 1e3};
      return mutator.pick(kBorders);
    }
    case 1:
      return mutator.pick(words.keys);
    case 2:
      return mutator.pick(words.keys) + mutator.odd_bytes();
    case 3: {
      static const std::vector<json> kSmall = {
          nullptr, true, false, "", " ", "${ENV:HERE}", "${ENV:NOT}", "${", "$${", "/", "a/b~c"};
      return mutator.pick(kSmall);
    }
    case 4: {
      json object = json::object();
      for (std::size_t count = mutator.below(4); count > 0; --count) {
        object[mutator.pick(words.keys)] = any_value(mutator, words);
      }
      return object;
    }
    case 5: {
      json list = json::array();
      for (std::size_t count = mutator.below(4); count > 0; --count) {
        list.push_back(any_value(mutator, words));
      }
      return list;
    }
    case 6:
      if (mutator.one_in(20)) {
        json value = mutator.pick(words.values);
        const bool is_object = mutator.one_in(2);
        for (std::size_t depth = 1 + mutator.below(120); depth > 0; --depth) {
          value = is_object ? json{{mutator.pick(words.keys), std::move(value)}}
                            : json::array({std::move(value)});
        }
        return value;
      }
      if (mutator.one_in(20)) {
        return json(1 + mutator.below(3000), mutator.pick(words.values));
      }
      if (mutator.one_in(20)) {
        return std::string(1 + mutator.below(20'000), 'x');
      }
      return mutator.pick(words.values);
    case 7:
      return {{"ref", std::string("/") + mutator.pick(words.keys)}};
    case 8:
      return {{"type", mutator.pick(words.values)}, {"options", json::object()}};
    default:
      return mutator.pick(words.values);
  }
}

json like_value(const json& old, Mutator& mutator, const JsonWords& words) {
  constexpr int kTries = 8;
  if (old.is_number_integer() && mutator.one_in(2)) {
    return mutator.below(12);
  }
  for (int i = 0; i < kTries; ++i) {
    const json& word = mutator.pick(words.values);
    if (word.type() == old.type()) {
      return word;
    }
  }
  return old;
}

void mutate_json(json& root, Mutator& mutator, const JsonWords& words) {
  json* at = &root;
  while (at->is_structured() && !at->empty() && !mutator.one_in(5)) {
    at = &*std::next(at->begin(), static_cast<std::ptrdiff_t>(mutator.below(at->size())));
  }
  const auto any_child = [&] {
    return std::next(at->begin(), static_cast<std::ptrdiff_t>(mutator.below(at->size())));
  };
  if (at->is_object() && mutator.one_in(3)) {
    (*at)[mutator.pick(words.keys)] = any_value(mutator, words);
  } else if (at->is_array() && mutator.one_in(3)) {
    at->push_back(at->empty() || mutator.one_in(2) ? any_value(mutator, words) : at->front());
  } else if (at->is_structured() && !at->empty() && mutator.one_in(3)) {
    at->erase(any_child());
  } else if (at->is_structured() && at->size() > 1 && mutator.one_in(2)) {
    std::swap(*any_child(), *any_child());
  } else if (at->is_object() && !at->empty()) {
    const auto child = any_child();
    json value = std::move(*child);
    at->erase(child);
    (*at)[mutator.pick(words.keys)] = std::move(value);
  } else if (!mutator.one_in(3)) {
    *at = like_value(*at, mutator, words);
  } else {
    *at = any_value(mutator, words);
  }
}

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tenon
