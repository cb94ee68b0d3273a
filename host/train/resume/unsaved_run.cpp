// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/unsaved_run.hpp"

#include "host/train/resume/run_file.hpp"

#include <nlohmann/json.hpp>

namespace tenon {
namespace {

bool has_name(const nlohmann::json& recipe, const std::string& name) {
  return recipe.is_object() && recipe.value("name", nlohmann::json()) == name;
}

}  // namespace

bool is_run_of(const std::string& path, const std::string& name) {
  return has_name(read_run_json(path + "/recipe.json"), name);
}

bool is_unsaved_run(const std::string& path, const std::string& name) {
  const nlohmann::json recipe = read_run_json(path + "/recipe.json");
  if (!has_name(recipe, name) || !recipe.contains("checkpoint")) {
    return false;
  }
  // The summary has the outcome of the run; it is written atomically.
  const nlohmann::json summary = read_run_json(path + "/summary.json");
  return summary.is_null() ||
         (summary.is_object() && summary.value("outcome", nlohmann::json("done")) != "done");
}

}  // namespace tenon
