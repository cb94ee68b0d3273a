// SPDX-License-Identifier: Apache-2.0
#include "host/json/schema_words.hpp"

#include "host/error/utf8.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::string words(const char* schema) {
  return expected_words(json::parse(schema));
}

}  // namespace

TEST_CASE("values are shown briefly", "[recipe]") {
  CHECK(brief_value(300) == "300");
  CHECK(brief_value("adamw") == "\"adamw\"");
  CHECK(brief_value(nullptr) == "null");
  CHECK(brief_value({1, 2}) == "[1,2]");
  CHECK(brief_value(json::array()) == "[]");
  CHECK(brief_value(std::vector<int>(100, 7)) == "a list of 100 entries");
  CHECK(brief_value({{"a", std::string(100, 'x')}}) == "an object of 1 keys");
  CHECK(brief_value(std::string(1000, 'x')) == "\"" + std::string(60, 'x') + "\"... (1000 bytes)");
}

TEST_CASE("a long text is not cut inside a character", "[recipe]") {
  std::string text = "x";
  for (int i = 0; i < 100; ++i) {
    text += "\xc3\xa9";
  }
  CHECK(is_utf8(brief_value(text)));
}

TEST_CASE("types have plain words", "[recipe]") {
  CHECK(type_word(1) == "integer");
  CHECK(type_word(1.5) == "number");
  CHECK(type_word("x") == "string");
  CHECK(type_word(true) == "boolean");
  CHECK(type_word(nullptr) == "null");
  CHECK(type_word(json::array()) == "list");
  CHECK(type_word(json::object()) == "object");
}

TEST_CASE("a schema says what it asks for", "[recipe]") {
  CHECK(words(R"({"type": "integer", "minimum": 1})") == "integer of at least 1");
  CHECK(words(R"({"type": "integer", "minimum": 1, "maximum": 9})") == "integer from 1 to 9");
  CHECK(words(R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})") ==
        "number of at least 0 and below 1");
  CHECK(words(R"({"type": "number", "exclusiveMinimum": 0})") == "number above 0");
  CHECK(words(R"({"type": ["integer", "null"], "minimum": 1})") ==
        "integer of at least 1, or null");
  CHECK(words(R"({"type": ["integer", "string", "boolean"]})") == "integer, string or boolean");
  CHECK(words(R"({"type": "null"})") == "null");
  CHECK(words(R"({"enum": ["fp32", "fp64"]})") == "one of: \"fp32\", \"fp64\"");
  CHECK(words(R"({"const": 3})") == "3");
  CHECK(words(R"({"type": "string", "minLength": 1})") == "string of at least 1 characters");
  CHECK(words(R"({"type": "string", "pattern": "^a"})") == "string matching ^a");
  CHECK(words(R"({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2})") ==
        "list of 2 entries, each number");
  CHECK(words(R"({"oneOf": [{"type": "null"}, {"type": "string"}]})") == "null, or string");
  CHECK(words("{}") == "any value");
  CHECK(words("true") == "any value");
  CHECK(words(R"({"x-tenon-component": "tokenizer"})") ==
        "a tokenizer: {\"type\": ..., \"options\": {...}} or {\"ref\": \"/path\"}");
}

TEST_CASE("words survive a schema that is none", "[recipe]") {
  CHECK(words(R"({"type": 5})") == "any value");
  CHECK(words(R"({"type": [5, {}], "minimum": "x", "enum": 3, "items": 4})") != "");
}

TEST_CASE("a long list of names is cut and counted", "[recipe]") {
  CHECK(name_list({"a", "b"}) == "a, b");
  CHECK(name_list({}).empty());
  const std::vector<std::string> many(20, "n");
  CHECK(name_list(many) == "n, n, n, n, n, n, n, n, n, n, n, n, ... (20 in all)");
  CHECK(name_list(std::vector<std::string>(14, "n")).find("...") == std::string::npos);
}

}  // namespace tenon
