// SPDX-License-Identifier: Apache-2.0
#include "host/json/one_or_named.hpp"

#include "host/json/schema_check.hpp"
#include "host/json/schema_defaults.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

const json kFormSchema = json::parse(R"({"type": ["object", "null"], "x-tenon-one-or-named": {
    "one": {"additionalProperties": false,
            "properties": {"type": {"type": "string"}, "options": {"type": "object"},
                           "size": {"type": "integer", "default": 3}}},
    "keys_of_one": ["options"],
    "names": {"pattern": "^[a-z]{1,3}$", "description": "1 to 3 letters"}}})");

bool is_one_of_options(const std::string& text) {
  return is_one(json::parse(text), {"options", "mix"});
}

std::vector<std::string> problems_of(const std::string& text) {
  ProblemList problems;
  check_schema(json::parse(text), kFormSchema, "/sets", PlaceMap(), problems);
  std::vector<std::string> texts;
  for (const Problem& problem : problems.kept()) {
    texts.push_back(problem.pointer + ": " + problem.what + " (" + problem.expected + ")");
  }
  return texts;
}

}  // namespace

TEST_CASE("one object is distinguished from several by name", "[json]") {
  CHECK(is_one_of_options(R"({"type": "text"})"));
  CHECK(is_one_of_options(R"({"type": "text", "options": {}})"));
  CHECK(is_one_of_options(R"({"options": {}})"));
  CHECK(is_one_of_options(R"({"mix": []})"));
  CHECK(is_one_of_options("{}"));
  CHECK_FALSE(is_one_of_options(R"({"kjv": {"type": "text"}})"));
  CHECK_FALSE(is_one_of_options(R"({"a": {}, "b": {}})"));
}

TEST_CASE("the form of an object says what it must be", "[json]") {
  const FormOfObject single = form_of_object(json::parse(R"({"type": "x"})"), kFormSchema);
  CHECK(single.is_one);
  CHECK(single.names == nullptr);
  CHECK(single.one == &kFormSchema["x-tenon-one-or-named"]["one"]);
  const FormOfObject several = form_of_object(json::parse(R"({"a": {}})"), kFormSchema);
  CHECK_FALSE(several.is_one);
  CHECK(several.one == single.one);
  CHECK(several.names == &kFormSchema["x-tenon-one-or-named"]["names"]);
  CHECK(form_of_object(nullptr, kFormSchema).one == nullptr);
  CHECK(form_of_object(json::object(), json::object()).one == nullptr);
}

TEST_CASE("a keyword of a wrong type demands nothing", "[json]") {
  for (const char* const keyword :
       {"5", R"({"one": 5})", R"({"one": {}, "keys_of_one": [7], "names": 3})"}) {
    INFO(keyword);
    const json schema = {{"x-tenon-one-or-named", json::parse(keyword)}};
    ProblemList problems;
    check_schema(json::parse(R"({"a": {"b": 1}})"), schema, "", PlaceMap(), problems);
    CHECK(problems.empty());
  }
}

TEST_CASE("one object and each of several are checked, and the names of several", "[json]") {
  CHECK(problems_of("null").empty());
  CHECK(problems_of(R"({"size": "x"})") ==
        std::vector<std::string>{"/sets/size: wrong type (integer)"});
  CHECK(problems_of(R"({"abc": {}, "b": {"size": 1.5}})") ==
        std::vector<std::string>{"/sets/b/size: wrong type (integer)"});
  CHECK(problems_of(R"({"abcd": {}, "a b": {}})") ==
        std::vector<std::string>{"/sets/a b: invalid name (1 to 3 letters)",
                                 "/sets/abcd: invalid name (1 to 3 letters)"});
}

TEST_CASE("one object and each of several get their defaults", "[json]") {
  const auto filled = [](const std::string& text) {
    json value = json::parse(text);
    PlaceMap places;
    apply_defaults(value, kFormSchema, "/sets", places);
    return value;
  };
  CHECK(filled("{}") == json::parse(R"({"size": 3})"));
  CHECK(filled(R"({"a": {}, "b": {"size": 1}})") ==
        json::parse(R"({"a": {"size": 3}, "b": {"size": 1}})"));
  CHECK(filled("null") == nullptr);
}

}  // namespace tenon
