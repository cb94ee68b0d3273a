// SPDX-License-Identifier: Apache-2.0
//
// Makes the paths of a recipe absolute: the strings that a schema marks by x-tenon-path.
// Threads: one at a time.
#pragma once

#include "host/json/place.hpp"
#include "host/json/problem.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace tenon {

class AbsolutePaths {
 public:
  // Relative paths start at `folder`; paths of a --set start at the current folder. Paths that
  // cannot be made absolute are added to `problems`.
  //
  // Owner    `places` and `problems` are borrowed for the life of this object
  AbsolutePaths(std::filesystem::path folder, const PlaceMap& places, ProblemList& problems);

  // Changes the paths in `value`. Leaves options of nested components alone, which have their own
  // schemas.
  void make_absolute(nlohmann::json& value,
                     const nlohmann::json& schema,
                     const std::string& pointer);

  // Returns the folders in which relative paths started, by the pointers of the paths.
  const std::map<std::string, std::string>& folders() const { return folders_; }

 private:
  void change(nlohmann::json& text, const std::string& pointer);

  const std::filesystem::path folder_;
  const PlaceMap& places_;
  ProblemList& problems_;
  std::map<std::string, std::string> folders_;
};

}  // namespace tenon
