// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_schema.hpp"

#include "host/json/json_path.hpp"
#include "host/json/schema_arbiter.hpp"

#include <nlohmann/json.hpp>

#include "tests/host/recipe/fake_catalog.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// Calls `visit` with every property of the schema and its pointer in a recipe.
template <typename Visit>
void for_each_property(const json& schema, const std::string& pointer, Visit visit) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, described] : properties.items()) {
    visit(described, join_pointer(pointer, key));
    for_each_property(described, join_pointer(pointer, key), visit);
  }
  for (const char* const below : {"items", "additionalProperties"}) {
    if (schema.contains(below) && schema[below].is_object()) {
      for_each_property(schema[below], pointer + "/*", visit);
    }
  }
}

}  // namespace

TEST_CASE("each key of the recipe has a meaning, or says that it is not there yet", "[recipe]") {
  int num_keys = 0;
  for_each_property(
      recipe_schema(), "", [&num_keys](const json& described, const std::string& pointer) {
        INFO(pointer);
        ++num_keys;
        const bool is_unavailable = described.contains("x-tenon-unavailable");
        CHECK(described.contains("description") != is_unavailable);
        if (is_unavailable) {
          CHECK(described["x-tenon-unavailable"]["what"].is_string());
        }
      });
  CHECK(num_keys > 80);
}

TEST_CASE("no reference is left in the schema, and its text is the schema", "[recipe]") {
  CHECK(recipe_schema_text().find("$ref") == std::string::npos);
  CHECK(json::parse(recipe_schema_text()) == recipe_schema());
}

TEST_CASE("the schema is one to others too", "[recipe]") {
  const SchemaArbiter arbiter(recipe_schema(), "the recipe");
  ProblemList problems;
  arbiter.check(json::parse(kSmallRecipe), "", PlaceMap(), problems);
  CHECK(problems.empty());
  arbiter.check(json::object(), "", PlaceMap(), problems);
  CHECK(problems.size() == 1);
}

TEST_CASE("names are derived in the letters of names", "[recipe]") {
  CHECK(as_name("quickstart") == "quickstart");
  CHECK(as_name("my recipe (2)") == "my_recipe__2_");
  CHECK(as_name("") == "_");
  CHECK(as_name("-x") == "_-x");
  CHECK(as_name("a.b/c") == "a_b_c");
  CHECK(as_name(std::string(500, 'a')).size() == 100);
  CHECK(as_name("-" + std::string(500, 'a')).size() == 100);
}

}  // namespace tenon
