// SPDX-License-Identifier: Apache-2.0
#include "host/json/override.hpp"

#include "host/json/json_source.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct Overridden {
  json root;
  PlaceMap places;
  ProblemList problems;
};

Overridden apply(const char* text, const std::vector<std::string>& sets) {
  Overridden outcome;
  outcome.root = parse_json(text, "a.json", outcome.places);
  int number = 0;
  for (const std::string& set : sets) {
    apply_override(set, ++number, outcome.root, outcome.places, outcome.problems);
  }
  return outcome;
}

json applied(const char* text, const std::vector<std::string>& sets) {
  const Overridden outcome = apply(text, sets);
  CHECK(outcome.problems.empty());
  return outcome.root;
}

// What the one problem says.
std::string refusal(const char* text, const std::string& set) {
  const Overridden outcome = apply(text, {set});
  REQUIRE(outcome.problems.size() == 1);
  CHECK(outcome.root == parse_json(text, "a.json"));  // nothing has changed
  CHECK(outcome.problems.kept()[0].place.text() == "--set #1");
  return outcome.problems.kept()[0].id + ": " + outcome.problems.kept()[0].pointer + ": " +
         outcome.problems.kept()[0].what;
}

using Tokens = std::vector<std::string>;

}  // namespace

TEST_CASE("a path is dotted, with indices, or a pointer", "[recipe]") {
  CHECK(split_path("train.steps") == Tokens{"train", "steps"});
  CHECK(split_path("hooks.0.options") == Tokens{"hooks", "0", "options"});
  CHECK(split_path("losses[0].weight") == Tokens{"losses", "0", "weight"});
  CHECK(split_path("a[1][2]") == Tokens{"a", "1", "2"});
  CHECK(split_path("/inputs/user.values") == Tokens{"inputs", "user.values"});
  CHECK(split_path("/a~1b") == Tokens{"a/b"});
  for (const char* const path :
       {"", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[0]b", "a.[0]", "/a~"}) {
    INFO(path);
    CHECK_FALSE(split_path(path));
  }
}

TEST_CASE("a value is JSON where it parses, else a string", "[recipe]") {
  CHECK(applied("{}", {"a=1"})["a"] == 1);
  CHECK(applied("{}", {"a=1.5"})["a"] == 1.5);
  CHECK(applied("{}", {"a=true"})["a"] == true);
  CHECK(applied("{}", {"a=null"})["a"] == nullptr);
  CHECK(applied("{}", {"a=[1, \"x\"]"})["a"] == json({1, "x"}));
  CHECK(applied("{}", {"a={\"b\": 2}"})["a"]["b"] == 2);
  CHECK(applied("{}", {"a=\"1\""})["a"] == "1");
  CHECK(applied("{}", {"a=adamw"})["a"] == "adamw");
  CHECK(applied("{}", {"a="})["a"] == "");
  CHECK(applied("{}", {"a=b=c"})["a"] == "b=c");
  CHECK(applied("{}", {"a=[1,"})["a"] == "[1,");
}

TEST_CASE("a value is replaced as a whole, in objects and in lists", "[recipe]") {
  const char* const text =
      R"({"train": {"steps": 1, "log": {"x": 1}}, "losses": [{"w": 1}, {"w": 2}]})";
  CHECK(applied(text, {"train.steps=9"})["train"]["steps"] == 9);
  CHECK(applied(text, {"train.log={}"})["train"]["log"] == json::object());
  CHECK(applied(text, {"losses[1].w=7"})["losses"][1]["w"] == 7);
  CHECK(applied(text, {"losses.0.w=7"})["losses"][0]["w"] == 7);
  CHECK(applied(text, {"losses=[]"})["losses"].empty());
  CHECK(applied(text, {"train.steps=1", "train.steps=2"})["train"]["steps"] == 2);
}

TEST_CASE("what is missing on the way is made", "[recipe]") {
  CHECK(applied("{}", {"a.b.c=1"}) == json({{"a", {{"b", {{"c", 1}}}}}}));
  CHECK(applied("{}", {"hooks.0.type=x"}) == json({{"hooks", json::array({{{"type", "x"}}})}}));
  CHECK(applied("{\"lr\": null}", {"lr.type=x"})["lr"]["type"] == "x");
  CHECK(applied("{\"a\": [1]}", {"a[1]=2", "a.2=3"})["a"] == json({1, 2, 3}));
}

TEST_CASE("an index out of range is refused with the range", "[recipe]") {
  CHECK(refusal(R"({"hooks": [1, 2]})", "hooks.3=5") ==
        "recipe.bad_set: /hooks/3: cannot be set: index 3 is out of range for the list /hooks; it "
        "has 2 entries, so 0 to 2 (append) is possible");
  CHECK_THAT(refusal(R"({"hooks": [1]})", "hooks.3=5"), contains_text("it has 1 entry, so 0 to 1"));
  CHECK_THAT(refusal(R"({"hooks": []})", "hooks.1.x=5"), contains_text("it is empty, so only 0"));
  CHECK_THAT(refusal(R"({"hooks": []})", "hooks.first=5"),
             contains_text("\"first\" is no index of it"));
}

TEST_CASE("a path through a plain value is refused", "[recipe]") {
  CHECK(refusal(R"({"train": {"steps": 3}})", "train.steps.x=5") ==
        "recipe.bad_set: /train/steps/x: cannot be set: /train/steps is 3, neither object nor "
        "list, and has no \"x\" in it");
}

TEST_CASE("a text that is no assignment is a mistake of the command line", "[recipe]") {
  for (const char* const set : {"train.steps", "=1", "a..b=1", "a[x]=1", ""}) {
    INFO(set);
    try {
      (void)apply("{}", {"ok=1", set});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.id() == "usage.bad_set");
      CHECK_THAT(error.message(), contains_text("--set #2: \"" + std::string(set) + "\""));
    }
  }
}

TEST_CASE("the place of what is set is the number of its --set", "[recipe]") {
  const Overridden outcome =
      apply(R"({"train": {"steps": 1, "log": {"x": 1}}})", {"train.log={\"x\": 2}", "a.b.c=1"});
  CHECK(outcome.places.at("/train/steps").text() == "a.json:1");
  CHECK(outcome.places.at("/train/log/x").text() == "--set #1");
  CHECK(outcome.places.at("/a").text() == "--set #2");
  CHECK(outcome.places.at("/a/b/c").text() == "--set #2");
}

TEST_CASE("a key that stands twice in a value is refused", "[recipe]") {
  CHECK_THAT(refusal("{}", "a={\"b\": 1, \"b\": 2}"), contains_text("recipe.duplicate_key: /a: "));
}

TEST_CASE("nesting beyond the limit is refused", "[recipe]") {
  std::string deep_path = "a";
  for (int i = 0; i < kMaxJsonDepth; ++i) {
    deep_path += ".a";
  }
  CHECK_THAT(refusal("{}", deep_path + "=1"), contains_text("recipe.too_deep: "));
  CHECK_THAT(refusal("{}", "a=" + std::string(100, '[') + std::string(100, ']')),
             contains_text("recipe.too_deep: "));
}

TEST_CASE("text that is not UTF-8 is refused", "[recipe]") {
  CHECK_THAT(refusal("{}", "a=\xff"), contains_text("recipe.not_utf8: "));
  CHECK_THAT(refusal("{}", "\xff=1"), contains_text("recipe.not_utf8: "));
}

}  // namespace tenon
