// SPDX-License-Identifier: Apache-2.0
//
// What binding a recipe finds out beside its values: which keys it has, which of them the user
// wrote, and where. The rules across keys (recipe_rules.hpp) ask it.
// Threads: one at a time.
#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tenon {

class BoundKeys {
 public:
  // Values for which `problems` already has an entry are not bound: their members keep their
  // initial values.
  //
  // Owner    `places` is borrowed for the life of this object
  BoundKeys(const PlaceMap& places, const ProblemList& problems);

  // Adds a key of the recipe. Called while the recipe is bound.
  //
  // Owner    `value` is borrowed for the life of this object
  void add(const std::string& pointer, const nlohmann::json& value);

  // True if the recipe has the key, as written or by default.
  bool has(std::string_view pointer) const;
  // True if the user wrote the key, with any value.
  bool is_given(std::string_view pointer) const;
  // True if the user wrote the key, with a value other than null.
  bool is_set(std::string_view pointer) const;
  // True if the value itself has a problem.
  bool has_problem(std::string_view pointer) const { return problems_.contains(pointer); }
  // True if the value or one that contains it has a problem, so that its member is not bound.
  bool is_unbound(std::string_view pointer) const;

  // Returns the place of a key; for a key that the recipe does not have, of what should contain it.
  const Place& place(std::string_view pointer) const;
  // Returns the value of a key as text for messages; "" if the recipe does not have it.
  std::string brief(std::string_view pointer) const;

 private:
  const PlaceMap& places_;
  std::set<std::string, std::less<>> problems_;
  std::map<std::string, const nlohmann::json*, std::less<>> values_;
};

}  // namespace tenon
