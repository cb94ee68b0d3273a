// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_part.hpp"

#include <nlohmann/json.hpp>

#include <initializer_list>

namespace tenon {
namespace {

using nlohmann::json;

std::string part_of(const std::string& frozen, std::initializer_list<const char*> pointers) {
  const json recipe = json::parse(frozen, nullptr, /*allow_exceptions=*/false);
  if (!recipe.is_object()) {
    return frozen;
  }
  json part;
  for (const char* const text : pointers) {
    const json::json_pointer pointer(text);
    part[text] = recipe.contains(pointer) ? recipe.at(pointer) : json();
  }
  return part.dump();
}

}  // namespace

std::string end_settings(const std::string& frozen) {
  return part_of(frozen,
                 {"/train/steps",
                  "/train/epochs",
                  "/train/windows",
                  "/train/tokens",
                  "/train/minutes",
                  "/hooks"});
}

std::string loss_settings(const std::string& frozen) {
  return part_of(frozen, {"/loss", "/losses"});
}

std::string evaluation_settings(const std::string& frozen) {
  return part_of(frozen,
                 {"/data/eval",
                  "/data/test",
                  "/eval/batches",
                  "/features",
                  "/loss",
                  "/losses",
                  "/metrics",
                  "/model",
                  "/models"});
}

}  // namespace tenon
