// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/findings.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a check fails if any component has a problem", "[check]") {
  Findings findings;
  findings.add_examined();
  findings.add_skipped("loss \"b\" cannot be created");
  findings.add_problem("loss \"a\" is wrong");
  const CheckResult result = findings.result("none");
  CHECK(result.outcome == CheckOutcome::kFailed);
  CHECK(result.found == std::vector<std::string>{"loss \"a\" is wrong"});
}

TEST_CASE("a check is skipped if no component was examined", "[check]") {
  Findings findings;
  CHECK(findings.result("no loss").outcome == CheckOutcome::kSkipped);
  CHECK(findings.result("no loss").found == std::vector<std::string>{"no loss"});
  findings.add_skipped("loss \"b\" cannot be created");
  CHECK(findings.result("no loss").outcome == CheckOutcome::kSkipped);
  CHECK(findings.result("no loss").found ==
        std::vector<std::string>{"loss \"b\" cannot be created"});
}

TEST_CASE("a check that passes keeps the reasons for what it skipped", "[check]") {
  Findings findings;
  findings.add_examined();
  findings.add_remark("3 values");
  findings.add_skipped("loss \"b\" cannot be created");
  const CheckResult result = findings.result("none");
  CHECK(result.outcome == CheckOutcome::kPassed);
  CHECK(result.found == std::vector<std::string>{"3 values", "loss \"b\" cannot be created"});
}

TEST_CASE("many problems and long problems are cut", "[check]") {
  Findings findings;
  for (int i = 0; i < 30; ++i) {
    findings.add_problem(std::string(5000, 'x'));
  }
  const CheckResult result = findings.result("none");
  REQUIRE(result.found.size() == 11);
  CHECK(result.found.front().size() < 700);
  CHECK(result.found.back() == "and 20 more problems");
}

}  // namespace tenon
