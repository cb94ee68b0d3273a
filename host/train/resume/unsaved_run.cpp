// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/unsaved_run.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace tenon {
namespace {

// Null where there is none, or where it is none.
nlohmann::json json_of(const std::string& file) {
  std::ifstream in(file);
  return in ? nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false) : nlohmann::json();
}

}  // namespace

bool is_unsaved_run(const std::string& path, const std::string& name) {
  const nlohmann::json recipe = json_of(path + "/recipe.json");
  if (!recipe.is_object() || recipe.value("name", nlohmann::json()) != name ||
      !recipe.contains("checkpoint")) {
    return false;
  }
  // A summary says how it ended; it is written wholly or not at all.
  const nlohmann::json summary = json_of(path + "/summary.json");
  return summary.is_null() ||
         (summary.is_object() && summary.value("outcome", nlohmann::json("done")) != "done");
}

}  // namespace tenon
