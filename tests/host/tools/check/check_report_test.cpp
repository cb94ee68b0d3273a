// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/check_report.hpp"

#include "host/tools/check/check_table.hpp"

#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const Check& named(std::string_view name) {
  return *find_checks(name).front();
}

PluginInfo some_plugin() {
  PluginInfo info;
  info.file = "a.so";
  info.manifest.id = "org.example.a";
  info.manifest.version = "1.0.0";
  info.manifest.lane = "stable";
  return info;
}

std::vector<CheckedRule> some_rules() {
  CheckResult bad = failed("it also exports foo");
  bad.frames = {"a.so(f+0x1) [0x2]"};
  return {{&named("static.elf"), passed()},
          {&named("static.one_export"), bad},
          {&named("loss.results"), skipped("the plugin has no loss")}};
}

}  // namespace

TEST_CASE("the report groups its lines, aligns them and fits a terminal", "[check]") {
  const std::vector<CheckedRule> rules = some_rules();
  std::string text;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    text += report_lines(rules[i], i > 0 ? &rules[i - 1] : nullptr);
  }
  text += report_end(rules);
  CHECK_THAT(text, contains_text("\nstatic\n  passed   static.elf "));
  CHECK_THAT(text, contains_text("  FAILED   static.one_export "));
  CHECK_THAT(text, contains_text("           found: it also exports foo\n"));
  CHECK_THAT(text, contains_text("             a.so(f+0x1) [0x2]\n"));
  CHECK_THAT(text, contains_text("           fix: " + std::string(named("static.one_export").fix)));
  CHECK_THAT(text, contains_text("\nloss\n  skipped  loss.results "));
  CHECK_THAT(text, contains_text("           reason: the plugin has no loss\n"));
  CHECK_THAT(text, contains_text("\n1 passed, 1 failed, 1 skipped\n"));
}

TEST_CASE("no line of a passed check is longer than 100 characters", "[check]") {
  for (const Check& check : all_checks()) {
    std::istringstream lines(report_lines({&check, passed(std::string(300, 'a') + " b")}, nullptr));
    std::string line;
    std::getline(lines, line);  // empty
    std::getline(lines, line);  // the group
    std::getline(lines, line);
    INFO(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("the JSON report has each check with what was found", "[check]") {
  const CheckRequest request{.file = "a.so", .seed = 7};
  const auto report = nlohmann::json::parse(report_json(request, some_plugin(), some_rules()));
  CHECK(report["id"] == "org.example.a");
  CHECK(report["seed"] == 7);
  CHECK(report["passed"] == 1);
  CHECK(report["failed"] == 1);
  CHECK(report["skipped"] == 1);
  REQUIRE(report["checks"].size() == 3);
  CHECK(report["checks"][1]["name"] == "static.one_export");
  CHECK(report["checks"][1]["outcome"] == "failed");
  CHECK(report["checks"][1]["found"][0] == "it also exports foo");
  CHECK(report["checks"][1]["fix"] == named("static.one_export").fix);
  CHECK_FALSE(report["checks"][0].contains("fix"));
}

TEST_CASE("the list of checks has all of them, in each form", "[check]") {
  const auto json = nlohmann::json::parse(checks_json());
  CHECK(json.size() == all_checks().size());
  for (const Check& check : all_checks()) {
    CHECK_THAT(checks_text(), contains_text(std::string(check.name)));
    CHECK_THAT(checks_markdown(), contains_text("| `" + std::string(check.name) + "` | "));
  }
}

}  // namespace tenon
