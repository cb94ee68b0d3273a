// SPDX-License-Identifier: Apache-2.0
//
// The places where an unchecked recipe names components outside options. The schema marks them.
// Places inside options are known only from the schemas of components.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

struct ComponentSite {
  std::string kind;
  std::string pointer;  // JSON pointer to an object
};

// Returns the places in the order of the recipe's keys. Skips values of a wrong type.
std::vector<ComponentSite> component_sites(const nlohmann::json& root);

}  // namespace tenon
