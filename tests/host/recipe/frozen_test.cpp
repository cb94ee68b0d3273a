// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/frozen.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

using nlohmann::json;

TEST_CASE("keys stand in the order of reading, those of options in that of the alphabet",
          "[recipe]") {
  const json recipe = json::parse(R"({
    "train": {"log_every": 1, "steps": 2}, "name": "x", "zeta": 1,
    "models": {"main": {"options": {"width": 1, "type": {"type": "t", "options": {}}, "batches": 2}, "type": "llama"}}})");
  CHECK(print_recipe(recipe) == R"({
  "name": "x",
  "models": {
    "main": {
      "type": "llama",
      "options": {
        "type": {
          "type": "t",
          "options": {}
        },
        "batches": 2,
        "width": 1
      }
    }
  },
  "train": {
    "steps": 2,
    "log_every": 1
  },
  "zeta": 1
}
)");
}

TEST_CASE("short plain lists stand on one line", "[recipe]") {
  CHECK(print_recipe({1, 2.5, "x", nullptr, true}) == "[1, 2.5, \"x\", null, true]\n");
  CHECK(print_recipe(json::array()) == "[]\n");
  CHECK(print_recipe(json::object()) == "{}\n");
  CHECK(print_recipe({{1}, {2}}) == "[\n  [1],\n  [2]\n]\n");
  const std::string text = print_recipe(std::vector<int>(100, 1234));
  CHECK_THAT(text, contains_text("[\n  1234,\n  1234,\n"));
}

TEST_CASE("strings are escaped, as JSON and for the environment", "[recipe]") {
  CHECK(print_recipe("a\"b\n") == "\"a\\\"b\\n\"\n");
  CHECK(print_recipe("${ENV:X}") == "\"$${ENV:X}\"\n");
  CHECK(print_recipe({{"${key}", 1}}) == "{\n  \"${key}\": 1\n}\n");
}

TEST_CASE("strings with variables are printed as they were written", "[recipe]") {
  CHECK(print_recipe({{"a", {"/x", "${b}"}}}, {{"/a/0", "${ENV:X}$${y}"}}) ==
        "{\n  \"a\": [\"${ENV:X}$${y}\", \"$${b}\"]\n}\n");
}

TEST_CASE("a string of a frozen recipe has the values of this process", "[recipe]") {
  ::setenv("TENON_TEST_FROZEN", "v", 1);
  CHECK(expanded_string("${ENV:TENON_TEST_FROZEN}/$${a}") == "v/${a}");
  CHECK(expanded_string("${ENV:TENON_TEST_NONE}/a") == "${ENV:TENON_TEST_NONE}/a");
}

TEST_CASE("what is printed parses back to the same", "[recipe]") {
  const json value = json::parse(R"({"a": [1, [2, {"b": []}], {}], "c": 0.1, "d": 1e-300, "e": -0.0,
    "f": 18446744073709551615, "g": "\u0000\u00e9\\"})");
  CHECK(json::parse(print_recipe(value)) == value);
}

}  // namespace tenon
