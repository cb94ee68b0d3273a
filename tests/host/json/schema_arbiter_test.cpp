// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_arbiter.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::vector<Problem> judged(const json& value, const char* schema) {
  PlaceMap places;
  places.set("", {.origin = PlaceOrigin::kFile, .file = "a.json", .number = 4});
  ProblemList problems;
  SchemaArbiter(json::parse(schema), "the loss \"x\"")
      .check(value, "/loss/options", places, problems);
  return problems.kept();
}

std::string schema_failure(const char* schema) {
  try {
    const SchemaArbiter arbiter(json::parse(schema), "the loss \"x\" of org.x (x.so)");
  } catch (const Error& error) {
    CHECK_THAT(error.message(), contains_text("the loss \"x\" of org.x (x.so)"));
    return error.id();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what the schema allows passes", "[recipe]") {
  CHECK(judged({{"a", 1}}, R"({"type": "object", "properties": {"a": {"type": "integer"}}})")
            .empty());
  CHECK(judged(json::object(), "{}").empty());
}

TEST_CASE("keywords that the walk does not know are judged", "[recipe]") {
  const auto problems = judged(
      {{"a", {{"n", 7}}}},
      R"({"properties": {"a": {"properties": {"n": {"type": "integer", "multipleOf": 2}}}}})");
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].id == "recipe.rejected");
  CHECK(problems[0].pointer == "/loss/options/a/n");
  CHECK(problems[0].found == "7");
  CHECK(problems[0].place.text() == "a.json:4");
  CHECK_THAT(problems[0].note, contains_text("multiple of 2"));
}

TEST_CASE("references and conditions of the schema are followed", "[recipe]") {
  const char* const schema = R"({"definitions": {"n": {"type": "integer"}},
    "properties": {"a": {"$ref": "#/definitions/n"}},
    "if": {"required": ["a"]}, "then": {"required": ["b"]}})";
  CHECK(judged({{"a", 1}, {"b", 2}}, schema).empty());
  CHECK(judged({{"a", "x"}, {"b", 2}}, schema).size() == 1);
  CHECK(judged({{"a", 1}}, schema).size() == 1);
}

TEST_CASE("a schema that is none is the plugin's error", "[recipe]") {
  CHECK(schema_failure(R"({"type": 5})") == "plugin.bad_schema");
  CHECK(schema_failure(R"({"type": "integr"})") == "plugin.bad_schema");
  CHECK(schema_failure(R"({"properties": []})") == "plugin.bad_schema");
  CHECK(schema_failure(R"({"properties": {"a": {"pattern": "("}}})") == "plugin.bad_schema");
  CHECK(schema_failure(R"({"patternProperties": {"[": {}}})") == "plugin.bad_schema");
  CHECK(schema_failure(
            R"({"properties": {"pattern": {"type": "string"}}, "default": {"pattern": "("}})") ==
        "no error");
}

TEST_CASE("a huge string is not put to patterns", "[recipe]") {
  const char* const schema = R"({"not": {"properties": {"a": {"pattern": "^(a|b)*$"}}}})";
  const auto problems = judged({{"a", std::string(1 << 20, 'a')}}, schema);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].id == "recipe.out_of_range");
}

}  // namespace tenon
