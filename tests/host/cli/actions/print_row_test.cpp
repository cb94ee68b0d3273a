// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a row is shown of a folder, or as its recipe has it start", "[cli]") {
  const CommandLine exported = parse_command_line(
      {"--table", "user", "--id=-9223372036854775808", "--from", "rows", "--json"});
  CHECK(exported.action == &kShowRowAction);
  CHECK(exported.table == "user");
  CHECK(exported.row_id == INT64_MIN);
  CHECK(exported.rows_from == "rows");
  CHECK(exported.is_json);
  const CommandLine fresh = parse_command_line({"--recipe", "r", "--table", "user", "--id", "42"});
  CHECK(fresh.recipe == "r");
  CHECK(fresh.row_id == 42);
  CHECK_THAT(usage_failure({"--table", "user"}),
             contains_text("--table needs the id of a row: --id N"));
  CHECK_THAT(usage_failure({"--table", "user", "--id", "x", "--from", "d"}),
             contains_text("--id: expected a whole number of 64 bits, found \"x\""));
  CHECK(usage_failure({"--table", "user", "--id", "1"}) ==
        "usage.missing_recipe: no recipe is given; name one: --recipe FILE");
  CHECK_THAT(usage_failure({"--table", "user", "--id", "1", "--from", "d", "--recipe", "r"}),
             contains_text("--from and --recipe contradict each other"));
  CHECK_THAT(usage_failure({"--recipe", "r", "--id", "1"}),
             contains_text("it goes with --new-plugin or --table"));
}

}  // namespace tenon
