// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/recipe_key.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

KeySchema schema_of(const RecipeKey& key, KeySchema schema, KeySchema preset = no_preset()) {
  SectionSchema section({.doc = "", .slot = "", .rules = nullptr});
  section.add(key, std::move(schema), std::move(preset));
  return section.take();
}

}  // namespace

TEST_CASE("limits that are whole are written as integers", "[recipe]") {
  RecipeKey key("x");
  key.min(1).max(0.5).above(-2);
  CHECK(key.item_keywords().dump() == R"({"minimum":1,"maximum":0.5,"exclusiveMinimum":-2})");
}

TEST_CASE("a key is required, absent or has a default", "[recipe]") {
  RecipeKey key("x");
  CHECK(schema_of(key, {{"type", "integer"}}, 3)["properties"]["x"]["default"] == 3);
  CHECK_FALSE(schema_of(key, {{"type", "integer"}})["properties"]["x"].contains("default"));
  key.preset("4");
  CHECK(schema_of(key, {{"type", "integer"}}, 3)["properties"]["x"]["default"] == 4);
  RecipeKey required("x");
  required.required();
  const KeySchema section = schema_of(required, {{"type", "integer"}}, 3);
  CHECK(section["required"] == KeySchema::array({"x"}));
  CHECK_FALSE(section["properties"]["x"].contains("default"));
  RecipeKey absent("x");
  absent.absent();
  CHECK_FALSE(schema_of(absent, {{"type", "integer"}}, 3)["properties"]["x"].contains("default"));
}

TEST_CASE("null is added to types and to choices", "[recipe]") {
  KeySchema both = {{"type", {"string", "object"}}, {"enum", {"a"}}};
  make_nullable(both);
  CHECK(both.dump() == R"({"type":["string","object","null"],"enum":[null,"a"]})");
}

TEST_CASE("a key of a part that this release lacks says so", "[recipe]") {
  SectionSchema section({.doc = "", .slot = "", .rules = nullptr});
  RecipeKey key("x");
  key.not_yet("wings", "[null, 1]", "walk");
  CHECK(key.is_unavailable());
  section.add_unavailable(key);
  CHECK(section.take()["properties"]["x"].dump() ==
        R"({"x-tenon-unavailable":{"what":"wings","unless":[null,1],"instead":"walk"}})");
}

TEST_CASE("an object may have a kind, a doc, rules for editors and another form", "[recipe]") {
  const KeySchema schema = SectionSchema({.doc = "a thing",
                                          .slot = "hook",
                                          .rules = {{"maxProperties", 1}},
                                          .is_open = true,
                                          .has_text_form = true})
                               .take();
  CHECK(schema["description"] == "a thing");
  CHECK(schema["x-tenon-slot"] == "hook");
  CHECK(schema["x-tenon-printed"]["maxProperties"] == 1);
  CHECK(schema["type"] == KeySchema::array({"string", "object"}));
  CHECK_FALSE(schema.contains("additionalProperties"));
}

}  // namespace tenon
