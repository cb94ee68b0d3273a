// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/unsaved_run.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace tenon {
namespace {

// Returns null if there is no file, and a discarded value if the file is not JSON.
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
  // The summary has the outcome of the run; it is written atomically.
  const nlohmann::json summary = json_of(path + "/summary.json");
  return summary.is_null() ||
         (summary.is_object() && summary.value("outcome", nlohmann::json("done")) != "done");
}

}  // namespace tenon
