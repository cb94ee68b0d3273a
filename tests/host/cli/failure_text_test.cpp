// SPDX-License-Identifier: Apache-2.0
#include "host/cli/failure_text.hpp"

#include "host/json/problem.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("an error is one line with its id", "[cli]") {
  CHECK(failure_text(Error("plugin.crashed", "x.so crashed"), "tenon") ==
        "tenon: [plugin.crashed] x.so crashed\n");
}

TEST_CASE("what an error quotes from a file cannot control the terminal", "[cli]") {
  CHECK(failure_text(Error("checkpoint.damaged", "'a\x1b]0;x\x07' is corrupt"), "host") ==
        "host: [checkpoint.damaged] 'a\\x1b]0;x\\x07' is corrupt\n");
  const RecipeErrors errors(
      "r.json",
      {{.id = "recipe.unknown_key",
        .place = {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 2},
        .pointer = "/\x1b[31m",
        .what = "unknown key"}});
  CHECK_THAT(failure_text(errors, "host"), contains_text("r.json:2: /\\x1b[31m: unknown key"));
}

TEST_CASE("a mistake on the command line is answered with the usage", "[cli]") {
  CHECK(failure_text(Error("usage.bad_option", "there is no option --x"), "host") ==
        "host: [usage.bad_option] there is no option --x\n"
        "usage: host --recipe FILE [--plugin-dir DIR]... [--set PATH=VALUE]...\n"
        "host --help lists all options\n");
}

TEST_CASE("all problems of a recipe are printed, and its id is not said twice", "[cli]") {
  const RecipeErrors errors(
      "r.json",
      {{.id = "recipe.unknown_key",
        .place = {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 2},
        .pointer = "/a",
        .what = "unknown key"},
       {.id = "recipe.wrong_type",
        .place = {.origin = PlaceOrigin::kFile, .file = "r.json", .number = 3},
        .pointer = "/b",
        .what = "wrong type"}});
  CHECK(failure_text(errors, "host") ==
        "r.json:2: /a: unknown key [recipe.unknown_key]\n"
        "r.json:3: /b: wrong type [recipe.wrong_type]\n"
        "2 errors in r.json; nothing was started\n");
}

}  // namespace tenon
