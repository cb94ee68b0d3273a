// SPDX-License-Identifier: Apache-2.0
#include "host/json/bounded_json.hpp"

#include <nlohmann/json.hpp>

#include <string>

#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

std::string bad_json(std::string_view text) {
  try {
    parse_bounded_json(text);
  } catch (const BadJson& error) {
    return error.what();
  }
  return "no error";
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("bounded JSON is the value that the text has", "[json]") {
  const std::string text = R"({"a": [1, -2, 2.5, null, true, "x"], "b": {"c": {}}, "": []})";
  CHECK(parse_bounded_json(text) == nlohmann::json::parse(text));
  CHECK(parse_bounded_json("7") == 7);
  CHECK(parse_bounded_json(nested(kMaxFileJsonDepth)).is_array());
}

TEST_CASE("nesting beyond the limit is refused without a value of that depth", "[json]") {
  CHECK(bad_json(nested(kMaxFileJsonDepth + 1)) == "it is nested more than 128 levels deep");
  // 10 MB that would become a value of 700 MB.
  CHECK(bad_json(std::string(10'000'000, '[')) == "it is nested more than 128 levels deep");
  CHECK(bad_json(R"({"a":)" + std::string(10'000'000, '[')) ==
        "it is nested more than 128 levels deep");
}

TEST_CASE("a key that occurs twice in one object is refused", "[json]") {
  CHECK(bad_json(R"({"a": 1, "b": {"a": 2}, "a": 3})") == "it has the key 'a' twice in one object");
  CHECK(bad_json(R"({"b": {"a": 2, "\u0061": 3}})") == "it has the key 'a' twice in one object");
  const std::string key(1000, 'k');
  CHECK(bad_json("{\"" + key + "\": 1, \"" + key + "\": 1}") ==
        "it has the key '" + key.substr(0, 100) + "...' (1000 bytes) twice in one object");
}

TEST_CASE("text that is not JSON is refused with its place, and is not quoted", "[json]") {
  CHECK(bad_json("") == "it is not valid JSON at byte 1");
  CHECK(bad_json("{\"a\": }") == "it is not valid JSON at byte 7");
  CHECK(bad_json("{} x") == "it is not valid JSON at byte 4");
  CHECK(bad_json("1e999") == "it is not valid JSON at byte 5");
  CHECK(bad_json("\"\xff\"") == "it is not valid JSON at byte 2");
  CHECK(bad_json('"' + std::string(1'000'000, 'x')).size() < 100);
}

TEST_CASE("the form of an object is checked without its value", "[json]") {
  CHECK(is_json_object("{}"));
  CHECK(is_json_object(R"({"a": [1, {"b": null}], "a": "twice"})"));
  CHECK(is_json_object("{\"a\":" + nested(kMaxFileJsonDepth - 1) + "}"));
  CHECK_FALSE(is_json_object("{\"a\":" + nested(kMaxFileJsonDepth) + "}"));
  CHECK_FALSE(is_json_object("[]"));
  CHECK_FALSE(is_json_object("null"));
  CHECK_FALSE(is_json_object("{"));
  CHECK_FALSE(is_json_object(""));
  CHECK_FALSE(is_json_object(std::string(10'000'000, '[')));
}

TEST_CASE("whole numbers are neither wrapped nor truncated", "[json]") {
  const auto number = [](const char* text) { return nlohmann::json::parse(text); };
  CHECK(unsigned_of(number("18446744073709551615")) == UINT64_MAX);
  CHECK(integer_of(number("-9223372036854775808")) == INT64_MIN);
  CHECK(integer_of(number("9223372036854775807")) == INT64_MAX);
  for (const char* const bad :
       {"-1", "1.5", "1e300", "18446744073709551616", "\"1\"", "null", "[]"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(unsigned_of(number(bad)), BadJson);
  }
  for (const char* const bad : {"9223372036854775808", "1.0", "1e300", "true", "{}"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(integer_of(number(bad)), BadJson);
  }
}
