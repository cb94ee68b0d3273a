// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/old_names.hpp"

#include "host/json/schema_visit.hpp"
#include "host/recipe/recipe_schema.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace tenon {

using nlohmann::json;

void replace_old_names(json& recipe) {
  visit_schema(
      recipe, recipe_schema(), "", [](json& value, const json& schema, const std::string&) {
        if (const auto keys = schema.find("x-tenon-renamed");
            keys != schema.end() && value.is_object()) {
          for (const auto& [old, name] : keys->items()) {
            const auto& present = name.get_ref<const std::string&>();
            if (value.contains(old) && !value.contains(present)) {
              value[present] = std::move(value[old]);
              value.erase(old);
            }
          }
        }
        const auto values = schema.find("x-tenon-renamed-values");
        if (values != schema.end() && value.is_string()) {
          if (const auto name = values->find(value.get_ref<const std::string&>());
              name != values->end()) {
            value = *name;
          }
        }
        return true;
      });
}

}  // namespace tenon
