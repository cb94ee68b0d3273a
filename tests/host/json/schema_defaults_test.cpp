// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_defaults.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

json filled(const char* value, const char* schema, PlaceMap& places) {
  json result = json::parse(value);
  apply_defaults(result, json::parse(schema), "", places);
  return result;
}

json filled(const char* value, const char* schema) {
  PlaceMap places;
  return filled(value, schema, places);
}

}  // namespace

TEST_CASE("absent keys get their defaults, also inside defaults", "[recipe]") {
  const char* const schema = R"({"properties": {
    "a": {"default": 1}, "b": {"default": {}, "properties": {"c": {"default": [2]}}}, "d": {}}})";
  CHECK(filled("{}", schema) == json::parse(R"({"a": 1, "b": {"c": [2]}})"));
  CHECK(filled(R"({"a": null, "b": {"c": 0}})", schema) ==
        json::parse(R"({"a": null, "b": {"c": 0}})"));
}

TEST_CASE("defaults have the place of defaults, and written values keep theirs", "[recipe]") {
  PlaceMap places;
  places.set("", {.origin = PlaceOrigin::kFile, .file = "a.json", .number = 3});
  filled(R"({"b": 1})", R"({"properties": {"a": {"default": 1}, "b": {"default": 2}}})", places);
  CHECK(places.at("/a").text() == "default");
  CHECK(places.at("/b").text() == "a.json:3");
}

TEST_CASE("defaults reach entries of lists and the form that fits", "[recipe]") {
  CHECK(filled(R"([{}, {"x": 2}])", R"({"items": {"properties": {"x": {"default": 1}}}})") ==
        json::parse(R"([{"x": 1}, {"x": 2}])"));
  CHECK(filled(R"({"k": "b"})", R"({"oneOf": [
    {"properties": {"k": {"const": "a"}, "n": {"default": 1}}},
    {"properties": {"k": {"const": "b"}, "n": {"default": 2}}}]})")["n"] == 2);
}

TEST_CASE("a whole float becomes the integer that was asked for", "[recipe]") {
  const json integer = filled("1e3", R"({"type": ["integer", "null"]})");
  CHECK(integer.is_number_integer());
  CHECK(integer == 1000);
  CHECK(filled("1.0", R"({"type": "number"})").is_number_float());
  CHECK(filled("1.5", R"({"type": "integer"})").is_number_float());
}

TEST_CASE("null becomes the value that it stands for", "[json]") {
  constexpr char kWithNull[] = R"({"properties": {"every": {"x-tenon-null": 0, "default": null}}})";
  CHECK(filled(R"({"every": null})", kWithNull) == json({{"every", 0}}));
  CHECK(filled(R"({"every": 7})", kWithNull) == json({{"every", 7}}));
  CHECK(filled("{}", kWithNull) == json({{"every", 0}}));
}

TEST_CASE("keys of parts that are not there are removed", "[recipe]") {
  CHECK(filled(R"({"tokens": null, "a": 1})",
               R"({"properties": {"tokens": {"x-tenon-unavailable": {}}}})") == json({{"a", 1}}));
}

TEST_CASE("a nested component's own options are left alone", "[recipe]") {
  CHECK(filled(R"({"t": {"type": "byte"}})",
               R"({"properties": {"t": {"x-tenon-component": "tokenizer",
                   "properties": {"options": {"default": {}}}}}})") ==
        json::parse(R"({"t": {"type": "byte"}})"));
}

TEST_CASE("values that break the schema are tolerated", "[recipe]") {
  CHECK(filled("5", R"({"properties": {"a": {"default": 1}}})") == 5);
  CHECK(filled(R"({"b": 5})", R"({"properties": {"b": {"properties": {"c": {"default": 1}}}}})") ==
        json({{"b", 5}}));
  CHECK(filled("{}", R"({"properties": {"a": true, "b": 5}})") == json::object());
  CHECK(filled("{}", R"({"properties": 5})") == json::object());
}

}  // namespace tenon
