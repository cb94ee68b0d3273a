// SPDX-License-Identifier: Apache-2.0
//
// Recipes changed by the schema that the program prints: keys that an object of the recipe may
// have, with values that their schema allows, nearly allows, or that are absurd. Threads: one.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/fuzz/mutator.hpp"

namespace tenon {

class SchemaMutator {
 public:
  explicit SchemaMutator(nlohmann::json schema);

  // Sets one key of one object in `recipe`.
  void mutate(nlohmann::json& recipe, Mutator& mutator) const;

 private:
  void collect(const nlohmann::json& schema);
  const nlohmann::json& resolved(const nlohmann::json& schema) const;
  nlohmann::json value_of(const nlohmann::json& schema, Mutator& mutator, int depth) const;
  nlohmann::json number_of(const nlohmann::json& schema, Mutator& mutator, bool is_integer) const;
  // The properties that an object of these keys may have.
  std::vector<const nlohmann::json*> properties_for(const nlohmann::json& object) const;

  nlohmann::json schema_;
  std::vector<const nlohmann::json*> properties_;  // all objects "properties" of the schema
  std::vector<std::string> texts_;                 // choices and types, from the whole schema
};

}  // namespace tenon
