// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/component_sites.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_words.hpp"
#include "host/recipe/eval_sites.hpp"
#include "host/recipe/recipe_key.hpp"
#include "host/recipe/recipe_sections.hpp"

#include <nlohmann/json.hpp>

namespace tenon {
namespace {

using nlohmann::json;

class Walk {
 public:
  void visit(const json& value, const KeySchema& schema, const std::string& pointer) {
    if (value.is_array()) {
      const auto items = schema.find("items");
      for (std::size_t i = 0; items != schema.end() && i < value.size(); ++i) {
        visit(value[i], *items, join_pointer(pointer, i));
      }
    } else if (value.is_object()) {
      visit_object(value, schema, pointer);
    }
  }

  std::vector<ComponentSite> take() { return std::move(sites_); }

 private:
  void visit_object(const json& value, const KeySchema& schema, const std::string& pointer) {
    if (const auto one = schema.find("x-tenon-one-or-named"); one != schema.end()) {
      if (is_single_dataset(value)) {
        visit_object(value, *one, pointer);
      } else {
        visit_each(value, *one, pointer);
      }
      return;
    }
    const auto slot = schema.find("x-tenon-slot");
    if (slot != schema.end() && !value.contains("mix")) {  // a mix is several components
      sites_.push_back({slot->get<std::string>(), pointer});
    }
    if (const auto properties = schema.find("properties"); properties != schema.end()) {
      for (const auto& [key, described] : properties->items()) {
        if (const auto child = value.find(key); child != value.end()) {
          visit(*child, described, join_pointer(pointer, key));
        }
      }
    } else if (const auto named = schema.find("additionalProperties"); named != schema.end()) {
      visit_each(value, *named, pointer);
    }
  }

  void visit_each(const json& value, const KeySchema& schema, const std::string& pointer) {
    for (const std::string& key : keys_of(value)) {
      visit(value.at(key), schema, join_pointer(pointer, key));
    }
  }

  std::vector<ComponentSite> sites_;
};

}  // namespace

std::vector<ComponentSite> component_sites(const json& root) {
  Walk walk;
  walk.visit(root, ordered_recipe_schema(), "");
  return walk.take();
}

}  // namespace tenon
