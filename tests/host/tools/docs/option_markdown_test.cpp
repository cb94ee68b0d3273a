// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/option_markdown.hpp"

#include <nlohmann/json.hpp>

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// The cells "type" and "default" of an option with this schema.
std::string cells(const std::string& schema) {
  const std::string table = option_markdown(
      Json::parse(R"({"type": "object", "properties": {"o": )" + schema + "}}"), "option");
  const std::string start = "|---|---|---|---|\n| `o` | ";
  const std::size_t at = table.find(start) + start.size();
  return table.substr(at, table.rfind(" |  |") - at);
}

}  // namespace

TEST_CASE("options become rows of a Markdown table, with those inside them", "[cli]") {
  const Json schema = Json::parse(R"({"type": "object", "required": ["zeta"], "properties": {
    "zeta": {"type": "number", "minimum": 0, "description": "comes first"},
    "alpha": {"type": "array", "default": [], "description": "a|b", "items": {"type": "object",
      "properties": {"width": {"type": "integer", "default": 3}}}}}})");
  CHECK(option_markdown(schema, "option") ==
        "| option | type | default | meaning |\n"
        "|---|---|---|---|\n"
        "| `zeta` | number ≥ 0 | required | comes first |\n"
        "| `alpha` | list of objects | `[]` | a\\|b |\n"
        "| `alpha[].width` | integer | `3` |  |\n");
  CHECK(option_markdown(schema, "key", {"alpha"}) ==
        "| key | type | default | meaning |\n"
        "|---|---|---|---|\n"
        "| `alpha` | list of objects | `[]` | a\\|b |\n"
        "| `alpha[].width` | integer | `3` |  |\n");
  CHECK(option_markdown(Json::object(), "option").empty());
}

TEST_CASE("types and limits of JSON Schema are put as mathematics has them", "[cli]") {
  CHECK(cells(R"({"type": "integer", "minimum": 1})") == "integer ≥ 1 | ");
  CHECK(cells(R"({"type": ["number", "null"], "exclusiveMinimum": 0, "default": null})") ==
        "number > 0 or null | `null`");
  CHECK(cells(R"({"type": ["null", "integer"], "maximum": 5})") == "integer ≤ 5 or null | ");
  CHECK(cells(R"({"type": "number", "exclusiveMaximum": 5})") == "number < 5 | ");
  CHECK(cells(R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})") ==
        "number in [0, 1) | ");
  CHECK(cells(R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1})") ==
        "number in (0, 1] | ");
  CHECK(cells(R"({"type": "integer", "minimum": 1, "maximum": 9007199254740991})") ==
        "integer ≥ 1 | ");
  CHECK(cells(R"({"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number",
                  "minimum": 0}})") == "list of 2 numbers ≥ 0 | ");
  CHECK(cells(R"({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}})") ==
        "list of `a`, `b` | ");
  CHECK(cells(R"({"type": "array"})") == "list | ");
  CHECK(cells(R"({"enum": ["a", null, "b"], "default": "a"})") == "`a`, `b` or null | `\"a\"`");
  CHECK(cells(R"({"type": "string", "x-tenon-path": true})") == "path | ");
  CHECK(cells(R"({"type": "object", "x-tenon-component": "tokenizer"})") ==
        "tokenizer component | ");
  CHECK(cells(R"({"anyOf": [{"type": "null"}, {"type": "string"}]})") == "string or null | ");
  CHECK(cells("{}") == "any | ");
}

TEST_CASE("what a release refuses is marked as not there yet", "[cli]") {
  const auto row = [](const std::string& mark) {
    const std::string table = option_markdown(
        Json::parse(R"({"properties": {"o": {"x-tenon-unavailable": )" + mark + "}}}"), "key");
    return table.substr(table.find("| `o`"));
  };
  CHECK(row(R"({"what": "wings"})") == "| `o` | not yet |  | wings |\n");
  CHECK(row(R"({"what": "wings", "unless": [null]})") ==
        "| `o` | not yet |  | wings; `null` may be written |\n");
  CHECK(row(R"({"what": "wings", "unless": [[], null, 3]})") ==
        "| `o` | not yet |  | wings; `[]` or `null` and the like may be written |\n");
}

}  // namespace tenon
