// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/bound_keys.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"

#include <nlohmann/json.hpp>

namespace tenon {

BoundKeys::BoundKeys(const PlaceMap& places, const ProblemList& problems) : places_(places) {
  for (const Problem& problem : problems.kept()) {
    problems_.insert(problem.pointer);
  }
}

void BoundKeys::add(const std::string& pointer, const nlohmann::json& value) {
  values_.insert_or_assign(pointer, &value);
}

bool BoundKeys::has(std::string_view pointer) const {
  return values_.contains(pointer);
}

bool BoundKeys::is_given(std::string_view pointer) const {
  return has(pointer) && places_.at(pointer).origin != PlaceOrigin::kDefault;
}

bool BoundKeys::is_set(std::string_view pointer) const {
  const auto found = values_.find(pointer);
  return found != values_.end() && !found->second->is_null() && is_given(pointer);
}

bool BoundKeys::is_unbound(std::string_view pointer) const {
  for (; !pointer.empty(); pointer = parent_pointer(pointer)) {
    if (has_problem(pointer)) {
      return true;
    }
  }
  return false;
}

const Place& BoundKeys::place(std::string_view pointer) const {
  return has(pointer) ? places_.at(pointer) : places_.written_at(parent_pointer(pointer));
}

std::string BoundKeys::brief(std::string_view pointer) const {
  const auto found = values_.find(pointer);
  return found != values_.end() ? brief_value(*found->second) : "";
}

}  // namespace tenon
