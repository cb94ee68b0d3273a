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
  ProblemList problems;
  for (int i = 0; i < 70; ++i) {
    problems.push_back(problem_at(i));
  }
  CHECK_THAT(RecipeErrors("bad.json", problems).report(),
             contains_text("\n... and 20 more\n70 errors in bad.json;"));
  for (int i = 70; i < 1000; ++i) {
    CHECK(problems.is_full() == (i >= 100));
    problems.push_back(problem_at(i));
    CHECK(problems.back().place.number == i);  // what a caller adds to it may be lost
  }
  CHECK(problems.size() == 1000);
  const RecipeErrors errors("bad.json", problems);
  CHECK(errors.problems().size() == 100);
  CHECK(errors.problems().back().place.number == 99);
  CHECK_THAT(
      errors.report(),
      contains_text("\n... and at least 50 more\nat least 100 errors in bad.json; nothing was"));
}

TEST_CASE("problems that were found separately count like the others", "[recipe]") {
  ProblemList problems({problem_at(1)});
  ProblemList others;
  for (int i = 0; i < 150; ++i) {
    others.push_back(problem_at(2));
  }
  problems.append(std::move(others));
  CHECK(problems.kept().size() == 100);
  CHECK(problems.size() == 151);
}

}  // namespace tenon
