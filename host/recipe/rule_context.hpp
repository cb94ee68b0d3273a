// SPDX-License-Identifier: Apache-2.0
//
// What the rules of contradiction.hpp are written with: values of the recipe by pointer, and the
// problems to report.
// Threads: one at a time.
#pragma once

#include "host/json/json_path.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

class RuleContext {
 public:
  RuleContext(const nlohmann::json& root, const PlaceMap& places, ProblemList& problems)
      : root_(root), places_(places), problems_(problems) {}

 protected:
  const nlohmann::json* object_at(const std::string& pointer) const {
    const nlohmann::json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_object() ? value : nullptr;
  }

  std::optional<std::int64_t> integer_at(const std::string& pointer) const {
    const nlohmann::json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_number_integer()
               ? std::optional(value->get<std::int64_t>())
               : std::nullopt;
  }

  bool is_true(const std::string& pointer) const {
    const nlohmann::json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }

  std::optional<std::string> string_at(const std::string& pointer) const {
    const nlohmann::json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_string() ? std::optional(value->get<std::string>())
                                                  : std::nullopt;
  }

  void add(const char* id, const std::string& pointer, std::string what, std::string note) {
    problems_.push_back({.id = id,
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = std::move(what),
                         .note = std::move(note)});
  }

  void conflict(const std::string& pointer, std::string what, std::string note) {
    add("recipe.contradiction", pointer, std::move(what), std::move(note));
  }

  void missing(const std::string& pointer, const std::string& kind, const std::string& meaning) {
    add("recipe.missing_key", pointer, "missing key", meaning);
    problems_.back().expected = "a " + kind + ": {\"type\": ..., \"options\": {...}}";
  }

  void not_available(const std::string& pointer,
                     const std::string& what,
                     const std::string& found) {
    add("recipe.not_available",
        pointer,
        "this release does not have " + what + " yet",
        "keep one; unsupported keys are never ignored silently");
    problems_.back().found = found;
  }

  bool is_false(const std::string& pointer) const {
    const nlohmann::json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_boolean() && !value->get<bool>();
  }

  const nlohmann::json& root_;
  const PlaceMap& places_;
  ProblemList& problems_;
};

}  // namespace tenon
