// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_visit.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("a visit reaches what the schema describes, parents first", "[recipe]") {
  json value = {{"a", 1}, {"l", {1, 2}}, {"o", {{"x", 3}}}, {"unknown", 4}};
  const json schema = json::parse(R"({"properties": {
    "a": {"x": 1}, "l": {"items": {}}, "o": {"additionalProperties": {}}}})");
  std::string visited;
  visit_schema(value, schema, "", [&visited](json&, const json&, const std::string& pointer) {
    visited += pointer + " ";
    return true;
  });
  CHECK(visited == " /a /l /l/0 /l/1 /o /o/x ");
}

TEST_CASE("a visit follows the form that fits, and stops where it is told", "[recipe]") {
  json value = {{"v", {{"x", 1}}}};
  const json schema = json::parse(R"({"properties": {"v": {"oneOf": [
    {"type": "string"}, {"type": "object", "properties": {"x": {}}}]}}})");
  std::string visited;
  visit_schema(value, schema, "", [&visited](json&, const json&, const std::string& pointer) {
    visited += pointer + " ";
    return true;
  });
  CHECK(visited == " /v /v /v/x ");
  visited.clear();
  visit_schema(value, schema, "", [&visited](json&, const json&, const std::string& pointer) {
    visited += pointer + " ";
    return false;
  });
  CHECK(visited == " ");
}

TEST_CASE("the form that a value fits is found, or none", "[recipe]") {
  const json schema = json::parse(R"({"anyOf": [{"type": "string"}, {"minimum": 2}]})");
  REQUIRE(fitting_variant(3, schema) != nullptr);
  CHECK(fitting_variant(3, schema)->contains("minimum"));
  CHECK(fitting_variant("x", schema)->at("type") == "string");
  CHECK(fitting_variant(1, schema) == nullptr);
  CHECK(fitting_variant(1, json::object()) == nullptr);
}

}  // namespace tenon
