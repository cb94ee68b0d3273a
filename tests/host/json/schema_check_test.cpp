// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_check.hpp"

#include "host/json/json_source.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::vector<Problem> check(const std::string& value, const std::string& schema) {
  PlaceMap places;
  const json parsed = parse_json(value, "a.json", places);
  ProblemList problems;
  check_schema(parsed, json::parse(schema), "", places, problems);
  return problems.kept();
}

// "id pointer" of each problem, by commas.
std::string found(const std::string& value, const std::string& schema) {
  std::string text;
  for (const Problem& problem : check(value, schema)) {
    text += (text.empty() ? "" : ", ") + problem.id + " " + problem.pointer;
  }
  return text;
}

Problem only(const std::string& value, const std::string& schema) {
  const std::vector<Problem> problems = check(value, schema);
  REQUIRE(problems.size() == 1);
  return problems[0];
}

}  // namespace

TEST_CASE("types are checked, and a whole float is an integer", "[recipe]") {
  CHECK(found("1", R"({"type": "integer"})").empty());
  CHECK(found("1e3", R"({"type": "integer"})").empty());
  CHECK(found("1.5", R"({"type": "integer"})") == "recipe.wrong_type ");
  CHECK(found("1e300", R"({"type": "integer"})") == "recipe.wrong_type ");
  CHECK(found("1", R"({"type": "number"})").empty());
  CHECK(found("null", R"({"type": ["integer", "null"]})").empty());
  CHECK(found("true", R"({"type": ["integer", "null"]})") == "recipe.wrong_type ");
  CHECK(found("\"x\"", R"({"type": "array"})") == "recipe.wrong_type ");
  CHECK(found("{}", R"({"type": "object"})").empty());
  CHECK(found("5", "true").empty());
  CHECK(found("5", "false") == "recipe.bad_value ");
}

TEST_CASE("limits of numbers are exact for large integers", "[recipe]") {
  CHECK(found("0", R"({"minimum": 1})") == "recipe.out_of_range ");
  CHECK(found("1", R"({"minimum": 1})").empty());
  CHECK(found("0", R"({"exclusiveMinimum": 0})") == "recipe.out_of_range ");
  CHECK(found("1", R"({"exclusiveMaximum": 1})") == "recipe.out_of_range ");
  CHECK(found("9223372036854775808", R"({"maximum": 9223372036854775807})") ==
        "recipe.out_of_range ");
  CHECK(found("9223372036854775807", R"({"maximum": 9223372036854775807})").empty());
  CHECK(found("-1", R"({"minimum": 0})") == "recipe.out_of_range ");
  CHECK(found("18446744073709551615", R"({"minimum": -5})").empty());
  CHECK(found("-7", R"({"minimum": -5})") == "recipe.out_of_range ");
  CHECK(found("0.5", R"({"minimum": 0, "maximum": 1})").empty());
}

TEST_CASE("choices offer the nearest one", "[recipe]") {
  const Problem problem = only("\"gleu\"", R"({"enum": ["swiglu", "gelu", 3]})");
  CHECK(problem.id == "recipe.bad_value");
  CHECK(problem.expected == "one of: \"swiglu\", \"gelu\", 3");
  CHECK(problem.found == "\"gleu\"");
  CHECK(problem.hint == "did you mean \"gelu\"?");
  CHECK(found("3", R"({"enum": ["swiglu", "gelu", 3]})").empty());
  CHECK(found("4", R"({"const": 3})") == "recipe.bad_value ");
}

TEST_CASE("strings have lengths in characters and patterns", "[recipe]") {
  CHECK(found("\"\"", R"({"minLength": 1})") == "recipe.out_of_range ");
  CHECK(found("\"\\u00e9\\u00e9\"", R"({"maxLength": 2})").empty());
  CHECK(found("\"abc\"", R"({"maxLength": 2})") == "recipe.out_of_range ");
  CHECK(found("\"abc\"", R"({"pattern": "^b"})") == "recipe.bad_value ");
  CHECK(found("\"abc\"", R"({"pattern": "b"})").empty());
}

TEST_CASE("a huge string is not put to a regular expression", "[recipe]") {
  const std::string huge = "\"" + std::string(1 << 20, 'a') + "\"";
  CHECK(found(huge, R"({"pattern": "^(a|b)*$"})") == "recipe.out_of_range ");
}

TEST_CASE("lists have entries, counts and uniqueness", "[recipe]") {
  CHECK(found("[1, \"x\", 2.5]", R"({"items": {"type": "integer"}})") ==
        "recipe.wrong_type /1, recipe.wrong_type /2");
  CHECK(found("[1]", R"({"minItems": 2})") == "recipe.out_of_range ");
  CHECK(found("[1, 2, 3]", R"({"maxItems": 2})") == "recipe.out_of_range ");
  CHECK(found("[1, 2, 1]", R"({"uniqueItems": true})") == "recipe.bad_value /2");
}

TEST_CASE("objects have keys that are known, needed and typed", "[recipe]") {
  const char* const schema = R"({"type": "object", "additionalProperties": false,
    "required": ["a", "b", "d"],
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "description": "the b"},
                   "c": {"type": "object", "properties": {"x": {"minimum": 2}}},
                   "d": {"type": "integer", "default": 1}}})";
  CHECK(found(R"({"a": 1, "b": "x"})", schema).empty());
  CHECK(found(R"({"a": "1", "e": 1, "c": {"x": 1}})", schema) ==
        "recipe.wrong_type /a, recipe.out_of_range /c/x, recipe.unknown_key /e, "
        "recipe.missing_key /b");
  const Problem missing = only("\n\n{\"a\": 1}", schema);
  CHECK(missing.place.text() == "a.json:3");  // where the key should stand
  CHECK(missing.pointer == "/b");
  CHECK(missing.note == "the b");
  CHECK(found(R"({"a": 1, "z": 2})", R"({"properties": {"a": {}}})").empty());
  CHECK(found(R"({"a": 1, "z": 2})", R"({"additionalProperties": {"type": "string"}})") ==
        "recipe.wrong_type /a, recipe.wrong_type /z");
}

TEST_CASE("an unknown key has the nearest one, and no hint where none is near", "[recipe]") {
  const char* const schema =
      R"({"additionalProperties": false, "properties": {"steps": {}, "epochs": {}}})";
  CHECK(only(R"({"stpes": 1})", schema).hint == "did you mean \"steps\"?");
  CHECK(only(R"({"zzz": 1})", schema).hint.empty());
  CHECK(only(R"({"zzz": 1})", schema).expected == "one of: epochs, steps");
  CHECK(only(R"({"zzz": 1})", R"({"additionalProperties": false})").expected == "no keys at all");
}

TEST_CASE("of several forms, the one of the right type speaks", "[recipe]") {
  const char* const schema =
      R"({"oneOf": [{"type": "null"}, {"type": "integer", "minimum": 1}, {"const": "auto"}]})";
  CHECK(found("null", schema).empty());
  CHECK(found("3", schema).empty());
  CHECK(found("\"auto\"", schema).empty());
  const char* const two = R"({"oneOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]})";
  CHECK(found("0", two) == "recipe.out_of_range ");
  CHECK(only("\"x\"", two).expected == "null, or integer of at least 1");
  CHECK(found("\"x\"", two) == "recipe.wrong_type ");
  CHECK(found("5", R"({"oneOf": [{"minimum": 1}, {"minimum": 2}]})") == "recipe.no_variant ");
  CHECK(found("5", R"({"anyOf": [{"minimum": 1}, {"minimum": 2}]})").empty());
  CHECK(found("0", R"({"anyOf": [{"minimum": 1}, {"minimum": 2}]})") == "recipe.no_variant ");
  CHECK(found("0", R"({"allOf": [{"minimum": 1}, {"type": "integer"}]})") ==
        "recipe.out_of_range ");
}

TEST_CASE("a nested component has a form of its own", "[recipe]") {
  const char* const schema = R"({"type": "object", "x-tenon-component": "tokenizer"})";
  CHECK(found(R"({"type": "byte"})", schema).empty());
  CHECK(found(R"({"type": "byte", "options": {"any": 1}})", schema).empty());
  CHECK(found(R"({"ref": "/a"})", schema).empty());
  CHECK(found(R"({"type": "byte", "option": {}})", schema) == "recipe.unknown_key /option");
  CHECK(found(R"({"options": {}})", schema) == "recipe.missing_key /type");
  CHECK(found(R"({"type": ""})", schema) == "recipe.out_of_range /type");
  CHECK(found(R"({"type": "byte", "ref": "/a"})", schema) == "recipe.contradiction ");
  CHECK(found(R"({"ref": "/a", "options": {}})", schema) == "recipe.unknown_key /options");
  CHECK(found("null", schema) == "recipe.wrong_type ");
  CHECK(only("\"byte\"", schema).hint == "write {\"type\": \"byte\"}");
  CHECK(found("null", R"({"type": ["object", "null"], "x-tenon-component": "tokenizer"})").empty());
}

TEST_CASE("a part that is not there yet is refused, unless nothing is asked of it", "[recipe]") {
  const char* const schema =
      R"({"properties": {"tokens": {"x-tenon-unavailable": {"what": "token horizons", "unless": [null]}}}})";
  CHECK(found(R"({"tokens": null})", schema).empty());
  const Problem problem = only(R"({"tokens": 5})", schema);
  CHECK(problem.id == "recipe.not_available");
  CHECK(problem.what == "this release does not have token horizons yet");
  const char* const values = R"({"enum": ["fp32"], "x-tenon-unavailable-values": ["bf16"]})";
  CHECK(found("\"fp32\"", values).empty());
  CHECK(found("\"bf16\"", values) == "recipe.not_available ");
  CHECK(found("\"fp23\"", values) == "recipe.bad_value ");
}

TEST_CASE("values from the command line and the environment get a hint of their own", "[recipe]") {
  PlaceMap places;
  places.set("", {.origin = PlaceOrigin::kSet, .number = 1});
  ProblemList problems;
  check_schema("[1", {{"type", "array"}}, "", places, problems);
  CHECK_THAT(problems.kept().at(0).note, contains_text("not JSON"));
  places.set("", {.origin = PlaceOrigin::kFile, .file = "a", .number = 1, .env = "SEED"});
  check_schema("1", {{"type", "integer"}}, "", places, problems);
  CHECK_THAT(problems.kept().at(1).note, contains_text("always a string"));
}

TEST_CASE("keywords that are malformed are passed over", "[recipe]") {
  CHECK(found(R"({"a": 1})", R"({"properties": 5, "required": "a", "enum": 3, "oneOf": {}})")
            .empty());
  CHECK(found("1", R"({"minimum": "x", "type": 7})").empty());
  CHECK(found("1", "5").empty());
  CHECK(found("\"x\"", R"({"$ref": "#/nowhere", "type": "integer"})").empty());
}

TEST_CASE("a value with countless problems is checked up to the limit of the report", "[recipe]") {
  const char* const schema = R"({"type": "array", "items": {"type": "integer"}})";
  json list = json::array();
  for (int i = 0; i < 200'000; ++i) {
    list.push_back("x");
  }
  ProblemList problems;
  check_schema(list, json::parse(schema), "/a", PlaceMap(), problems);
  CHECK(problems.size() == ProblemList::kMaxKept);
  json object = json::object();
  for (int i = 0; i < 200'000; ++i) {
    object[std::to_string(i)] = 1;
  }
  ProblemList of_keys;
  check_schema(object, {{"additionalProperties", false}}, "/a", PlaceMap(), of_keys);
  CHECK(of_keys.size() == ProblemList::kMaxKept);
}

TEST_CASE("equal entries of a long list are found", "[recipe]") {
  json list = json::array();
  for (int i = 0; i < 200'000; ++i) {
    list.push_back(i);
  }
  list.push_back(3.0);  // equal to entry 3
  list.push_back("3");
  ProblemList problems;
  check_schema(list, {{"uniqueItems", true}}, "/a", PlaceMap(), problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems.kept()[0].pointer == "/a/200000");
  CHECK(problems.kept()[0].what == "the same as entry 3");
}

}  // namespace tenon
