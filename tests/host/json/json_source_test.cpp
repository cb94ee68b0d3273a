// SPDX-License-Identifier: Apache-2.0
#include "host/json/json_source.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <sys/stat.h>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// "[id] message" of the error that parsing throws.
std::string failure_of(std::string_view text) {
  try {
    (void)parse_json(text, "a.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("each value has the line of its key, each entry of a list its own", "[recipe]") {
  PlaceMap places;
  const json value = parse_json(R"({
  "a":
    1,
  "b": [10,
        20, "x\n\u00e9y",
        {"c": null}],
  "d": {}
})",
                                "a.json",
                                places);
  CHECK(value["b"][2] == "x\n\xc3\xa9y");
  CHECK(places.at("").text() == "a.json:1");
  CHECK(places.at("/a").text() == "a.json:2");
  CHECK(places.at("/b").text() == "a.json:4");
  CHECK(places.at("/b/0").text() == "a.json:4");
  CHECK(places.at("/b/1").text() == "a.json:5");
  CHECK(places.at("/b/2").text() == "a.json:5");
  CHECK(places.at("/b/3").text() == "a.json:6");
  CHECK(places.at("/b/3/c").text() == "a.json:6");
  CHECK(places.at("/d").text() == "a.json:7");
}

TEST_CASE("numbers keep their kind and their exact value", "[recipe]") {
  const json value = parse_json("[1, -1, 1.0, 18446744073709551615, 1e3]", "a.json");
  CHECK(value[0].is_number_unsigned());
  CHECK(value[1].is_number_integer());
  CHECK(value[2].is_number_float());
  CHECK(value[3].get<std::uint64_t>() == 18446744073709551615U);
  CHECK(value[4].get<double>() == 1000.0);
}

TEST_CASE("comments are allowed, and lines are counted through them", "[recipe]") {
  PlaceMap places;
  const json value = parse_json(
      "// first\n{ /* two\nlines */ \"a\": 1, // behind\n \"b\": 2 }\n// end", "a.json", places);
  CHECK(value == json({{"a", 1}, {"b", 2}}));
  CHECK(places.at("/a").number == 3);
  CHECK(places.at("/b").number == 4);
}

TEST_CASE("a byte order mark and carriage returns do no harm", "[recipe]") {
  PlaceMap places;
  const json value = parse_json("\xef\xbb\xbf{\r\n\"a\": 1\r\n}\r\n", "a.json", places);
  CHECK(value == json({{"a", 1}}));
  CHECK(places.at("/a").number == 2);
}

TEST_CASE("a key that stands twice is an error with both lines", "[recipe]") {
  CHECK(failure_of("{\"a\": {\n  \"b\": 1,\n  \"b\": 2}}") ==
        "[recipe.duplicate_key] a.json:3:5: /a/b stands twice, first in line 2; remove one of "
        "them\n"
        "    3 |   \"b\": 2}}\n"
        "      |     ^");
}

TEST_CASE("a syntax error shows line, column and a marker", "[recipe]") {
  CHECK(failure_of("{\n  \"a\" 1\n}") ==
        "[recipe.syntax] a.json:2:7: not JSON: while parsing object separator - unexpected number "
        "literal; expected ':'\n"
        "    2 |   \"a\" 1\n"
        "      |       ^");
  CHECK_THAT(failure_of("{\"a\": tru}"),
             contains_text("a.json:1:10: not JSON: while parsing value"));
  CHECK_THAT(failure_of("[1 2]"), contains_text("expected ',' or ']'"));
  CHECK_THAT(failure_of("{\"a\": 1 \"b\": 2}"), contains_text("expected ',' or '}'"));
  CHECK_THAT(failure_of("{} x"), contains_text("expected end of input"));
  CHECK_THAT(failure_of("{\"a\": \"b\nc\"}"), contains_text("control character U+000A"));
  CHECK_THAT(failure_of("[1e999]"), contains_text("not JSON: number overflow"));
  CHECK_THAT(failure_of("{\"a\": \"\xff\"}"), contains_text("ill-formed UTF-8"));
  CHECK_THAT(failure_of("/* open"), contains_text("[recipe.syntax] a.json:1:"));
}

TEST_CASE("files that are no JSON are recognized by their kind", "[recipe]") {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, const char*> cases[] = {
      {"model:\n  type: mlp\n", "not JSON: the file is YAML; write the recipe as JSON"},
      {"# a run\n\nmodel:\n", "the file is YAML"},
      {"---\nmodel: x\n", "the file is YAML"},
      {"name: iris\n", "the file is YAML"},
      {"train:\n", "the file is YAML"},
      {"train.steps = 3\n", "the file is TOML"},
      {"[model]\ntype = \"mlp\"\n", "the file is TOML"},
      {"# a run\n\n[model]\n", "the file is TOML"},
      {"[[data.mix]]\r\nweight = 1\n", "the file is TOML"},
      {"<html>", "the file is XML or HTML"},
      {"\xff\xfe{\0}\0"sv, "the file is UTF-16; save it as UTF-8"},
      {"\xfe\xff\0{"sv, "the file is UTF-16"},
      {"\x1f\x8b\x08", "the file is compressed"},
      {"PAR1", "the file is binary"},
      {"{\xe2\x80\x9c"
       "name\xe2\x80\x9d: 1}",
       "typographic quotes"},
      {"{\"name\": \xe2\x80\x98iris\xe2\x80\x99}", "typographic quotes"},
      {"{\xc2\xa0\"name\": 1}", "an invisible character"},
      {"{'name': 1}", "strings have double quotes in JSON"},
      {"{\"a\": 1} # end", "a comment begins with //"}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(expected);
    CHECK_THAT(failure_of(text), contains_text("[recipe.syntax] a.json:1:"));
    CHECK_THAT(failure_of(text), contains_text(expected));
  }
  CHECK_THAT(failure_of("{\"a\": \"\xe2\x80\x9c"
                        "b\xe2\x80\x9d\"} x"),
             contains_text("expected end of input"));
}

TEST_CASE("text that ends too early is an error at its end", "[recipe]") {
  CHECK(failure_of("") == "[recipe.syntax] a.json:1:1: not JSON: it is empty\n    1 | \n      | ^");
  CHECK_THAT(failure_of("{\n\"a\": [1,"), contains_text("a.json:2:9: not JSON: "));
  CHECK_THAT(failure_of("{\n"), contains_text("unexpected end of input"));
}

TEST_CASE("a trailing comma is named as what it is", "[recipe]") {
  CHECK(failure_of("{\n  \"a\": [1, 2], // two\n}") ==
        "[recipe.syntax] a.json:2:14: trailing comma: JSON has no comma before '}'; remove it\n"
        "    2 |   \"a\": [1, 2], // two\n"
        "      |              ^");
  CHECK_THAT(failure_of("[1, /* , */ 2, ]"), contains_text("1:14: trailing comma"));
  // A comma inside a string or comment is none.
  CHECK_THAT(failure_of("{\"a,\" }"), contains_text("not JSON"));
  CHECK_THAT(failure_of("{\"a\": /* , */ }"), contains_text("not JSON"));
}

TEST_CASE("a long line is cut around the error", "[recipe]") {
  const std::string text = "[" + std::string(5000, ' ') + "x" + std::string(5000, ' ') + "]";
  const std::string failure = failure_of(text);
  CHECK(failure.size() < 400);
  CHECK_THAT(failure, contains_text("a.json:1:5002: "));
}

TEST_CASE("nesting has a limit", "[recipe]") {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  CHECK(failure_of(nested(kMaxJsonDepth)) == "no error");
  CHECK_THAT(failure_of(nested(kMaxJsonDepth + 1)),
             contains_text("[recipe.too_deep] a.json:1:101"));
  CHECK_THAT(failure_of(nested(1000000)), contains_text("[recipe.too_deep]"));
}

TEST_CASE("a text of more values than a recipe needs is an error at once", "[recipe]") {
  const auto list = [](std::size_t size) {
    std::string text = "[0";
    for (std::size_t i = 2; i < size; ++i) {
      text += ",\n0";
    }
    return text + "]";
  };
  CHECK(failure_of(list(kMaxJsonValues)) == "no error");
  CHECK_THAT(failure_of(list(kMaxJsonValues + 1)),
             contains_text("[recipe.too_many_values] a.json:250000:") &&
                 contains_text("more than 250000 values"));
  CHECK_THAT(failure_of(list(10'000'000)), contains_text("[recipe.too_many_values]"));
}

TEST_CASE("a file that is not there, or is no regular file, is an error with its name",
          "[recipe]") {
  const ScratchFolder folder;
  CHECK(read_recipe_text(folder.write("a.json", "{}").string()) == "{}");
  CHECK(read_recipe_text(folder.write("empty.json", "").string()).empty());
  const std::string fifo = (folder.path() / "fifo.json").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const auto& [path, why] : {std::pair(folder.path().string(), "it is a folder"),
                                  std::pair((folder.path() / "none.json").string(), "No such file"),
                                  std::pair(fifo, "it is a FIFO"),
                                  std::pair(std::string("/dev/zero"), "it is a device")}) {
    try {
      (void)read_recipe_text(path);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.id() == "recipe.unreadable");
      CHECK_THAT(error.message(), contains_text(path) && contains_text(why));
    }
  }
}

}  // namespace tenon
