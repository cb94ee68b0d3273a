// SPDX-License-Identifier: Apache-2.0
//
// Where a recipe itself names components, before it is checked. The schema marks these places;
// those inside options are known from the schemas of components only.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

struct ComponentSite {
  std::string kind;
  std::string pointer;  // of an object
};

// In the order of the recipe's keys. Values of a wrong type are skipped.
std::vector<ComponentSite> component_sites(const nlohmann::json& root);

}  // namespace tenon
