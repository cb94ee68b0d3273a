// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("keys of the recipe are described as a table for a page", "[cli]") {
  const CommandLine all = parse_command_line({"--describe", "recipe", "--markdown"});
  CHECK(all.describe_kind.empty());
  CHECK(all.describe_keys.empty());
  CHECK(all.is_markdown);
  CHECK(parse_command_line({"--describe", "recipe:train,eval", "--markdown"}).describe_keys ==
        Words{"train", "eval"});
  CHECK_THAT(usage_failure({"--describe", "recipe:train"}), contains_text("goes with --markdown"));
  CHECK_THAT(usage_failure({"--describe", "loss:mse", "--json", "--markdown"}),
             contains_text("contradict each other"));
  CHECK_THAT(usage_failure({"--recipe", "a.json", "--markdown"}),
             contains_text("goes with --describe"));
  CHECK_THAT(usage_failure({"--list-plugins", "--markdown"}), contains_text("has no effect"));
}

TEST_CASE("what is to be described has a kind and a type", "[cli]") {
  for (const std::string text : {"mse", ":mse", "loss:"}) {
    CHECK(usage_failure({"--describe", text}) ==
          "usage.bad_option: --describe: expected KIND:TYPE, as in loss:mse, found \"" + text +
              "\"");
  }
  const CommandLine kind = parse_command_line({"--describe", "loss"});  // lists its types
  CHECK(kind.describe_kind == "loss");
  CHECK(kind.describe_type.empty());
  CHECK(usage_failure({"--describe", "los:mse"}) ==
        "usage.bad_option: --describe: there is no kind \"los\"; did you mean \"loss\"?");
  CHECK_THAT(usage_failure({"--describe", "quux:mse"}),
             contains_text("kinds are model, dataset, "));
}

}  // namespace tenon
