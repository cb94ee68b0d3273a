// SPDX-License-Identifier: Apache-2.0
#include "host/cli/recipe_options.hpp"

#include "host/cli/command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a run needs a recipe", "[cli]") {
  for (const Words& words :
       {Words{}, Words{"--validate"}, Words{"--print-recipe", "--set", "a=1"}}) {
    CHECK(usage_failure(words) ==
          "usage.missing_recipe: no recipe is given; name one: --recipe FILE");
  }
}

TEST_CASE("a log level is one of four", "[cli]") {
  CHECK(
      usage_failure({"--recipe", "a", "--log-level", "warn"}) ==
      "usage.bad_option: --log-level: expected debug, info, warning or error, found \"warn\"; did "
      "you mean \"warning\"?");
  CHECK(usage_failure({"--recipe", "a", "--log-level", "7"}) ==
        "usage.bad_option: --log-level: expected debug, info, warning or error, found \"7\"");
}

}  // namespace tenon
