// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/check_table.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("each check has a name in a group, a sentence and a fix", "[check]") {
  std::set<std::string_view> names;
  for (const Check& check : all_checks()) {
    INFO(check.name);
    CHECK(names.insert(check.name).second);
    CHECK(check.name.find('.') != std::string_view::npos);
    CHECK(check.rule.size() <= 62);  // a line of the report
    CHECK(check.rule.ends_with('.'));
    CHECK(std::isupper(static_cast<unsigned char>(check.rule.front())) != 0);
    CHECK_FALSE(check.fix.empty());
    CHECK_FALSE(check.fix.ends_with('.'));
    CHECK(check.run != nullptr);
  }
}

TEST_CASE("a check needs only checks that come before it", "[check]") {
  std::set<std::string_view> earlier = {""};
  for (const Check& check : all_checks()) {
    INFO(check.name << " needs " << check.needs);
    CHECK(earlier.contains(check.needs));
    earlier.insert(check.name);
  }
}

TEST_CASE("checks that run code of the plugin need one that has loaded it", "[check]") {
  for (const Check& check : all_checks()) {
    INFO(check.name);
    const bool is_static = check.group() == "static";
    CHECK((check.stage == CheckStage::kFile) == is_static);
    const Check* first = &check;
    while (first->name != "load.loads" && !first->needs.empty()) {
      first = find_checks(first->needs).front();
    }
    CHECK((is_static || first->name == "load.loads"));
  }
}

TEST_CASE("checks are found by name and by group", "[check]") {
  REQUIRE(find_checks("static.elf").size() == 1);
  CHECK(find_checks("static.elf").front()->name == "static.elf");
  CHECK(find_checks("loss").size() > 1);
  CHECK(std::ranges::all_of(find_checks("loss"),
                            [](const Check* check) { return check->group() == "loss"; }));
  CHECK(find_checks("").size() == all_checks().size());
  CHECK(find_checks("los").empty());
  CHECK(find_checks("loss.").empty());
  CHECK(check_groups().front() == "static");
}

}  // namespace tenon
