// SPDX-License-Identifier: Apache-2.0
#include "host/json/problem.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Place at_line(int number) {
  return {.origin = PlaceOrigin::kFile, .file = "recipes/bad.json", .number = number};
}

Problem problem_at(int number) {
  return {.id = "recipe.bad_value", .place = at_line(number), .pointer = "/a", .what = "bad"};
}

}  // namespace

TEST_CASE("a problem is a line and its details", "[recipe]") {
  const Problem problem{.id = "recipe.unknown_key",
                        .place = at_line(12),
                        .pointer = "/train/stpes",
                        .what = "unknown key",
                        .expected = "one of: steps, epochs",
                        .found = "\"stpes\"",
                        .hint = "did you mean \"steps\"?"};
  CHECK(render(problem) ==
        "recipes/bad.json:12: /train/stpes: unknown key [recipe.unknown_key]\n"
        "    expected one of: steps, epochs\n"
        "    found: \"stpes\"; did you mean \"steps\"?");
}

TEST_CASE("details that are empty are left out", "[recipe]") {
  CHECK(render(problem_at(3)) == "recipes/bad.json:3: /a: bad [recipe.bad_value]");
  Problem problem = problem_at(3);
  problem.pointer = "";
  problem.hint = "a hint alone";
  problem.note = "a note";
  CHECK(render(problem) ==
        "recipes/bad.json:3: bad [recipe.bad_value]\n    a hint alone\n    a note");
}

TEST_CASE("one problem gives its own id to the error", "[recipe]") {
  const RecipeErrors errors("recipes/bad.json", {problem_at(3)});
  CHECK(errors.id() == "recipe.bad_value");
  CHECK(errors.report() ==
        "recipes/bad.json:3: /a: bad [recipe.bad_value]\n"
        "1 error in recipes/bad.json; nothing was started");
  CHECK(errors.exit_code() == ExitCode::kRecipe);
}

TEST_CASE("several problems are sorted by place and counted", "[recipe]") {
  Problem set = problem_at(1);
  set.place = {.origin = PlaceOrigin::kSet, .number = 1};
  const RecipeErrors errors("recipes/bad.json", {set, problem_at(10), problem_at(9)});
  CHECK(errors.id() == "recipe.invalid");
  CHECK(errors.report() ==
        "recipes/bad.json:9: /a: bad [recipe.bad_value]\n"
        "recipes/bad.json:10: /a: bad [recipe.bad_value]\n"
        "--set #1: /a: bad [recipe.bad_value]\n"
        "3 errors in recipes/bad.json; nothing was started");
  CHECK(errors.problems().front().place.number == 9);
}

TEST_CASE("a flood of problems is cut", "[recipe]") {
  const RecipeErrors errors("bad.json", std::vector<Problem>(1000, problem_at(1)));
  CHECK_THAT(errors.report(), contains_text("\n... and 950 more\n1000 errors in bad.json;"));
  CHECK(errors.problems().size() == 1000);
}

}  // namespace tenon
