// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/plugin_difference.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Plugins = std::vector<UsedPlugin>;

// "class: what" of the only change, "" of none.
std::string change(const Plugins& before, const Plugins& now) {
  const auto found = plugin_changes(before, now);
  CHECK(found.size() <= 1);
  return found.empty() ? ""
                       : std::string(change_class_name(found[0].change)) + ": " + found[0].what;
}

}  // namespace

TEST_CASE("other bytes of one version of a plugin warn", "[recipe]") {
  CHECK(change({{"org.x", "1.0.0", "aa"}}, {{"org.x", "1.0.0", "aa"}}).empty());
  CHECK(change({{"org.x", "1.0.0", "aa"}}, {{"org.x", "1.0.0", "bb"}}) ==
        "warns: org.x 1.0.0: file changed (hash aa to bb)");
  CHECK(change({{"org.x", "1.0.0", ""}}, {{"org.x", "1.0.0", "bb"}}).empty());  // nobody knows
}

TEST_CASE("another version of a plugin warns, and another major one is refused", "[recipe]") {
  CHECK(change({{"org.x", "1.2.0", "aa"}}, {{"org.x", "1.3.0", "bb"}}) ==
        "warns: org.x: version changed from 1.2.0 to 1.3.0");
  CHECK(change({{"org.x", "1.2.0", "aa"}}, {{"org.x", "2.0.0", "bb"}}) ==
        "refused: org.x: version changed from 1.2.0 to 2.0.0");
  // Below 1.0 the minor version is what breaks.
  CHECK(change({{"org.x", "0.1.0", ""}}, {{"org.x", "0.1.5", ""}}).starts_with("warns"));
  CHECK(change({{"org.x", "0.1.0", ""}}, {{"org.x", "0.2.0", ""}}).starts_with("refused"));
  CHECK(change({{"org.x", "0", ""}}, {{"org.x", "0.2", ""}}).starts_with("refused"));
  CHECK(change({{"org.x", "3", ""}}, {{"org.x", "3.1", ""}}).starts_with("warns"));
}

TEST_CASE("plugins may come and go", "[recipe]") {
  CHECK(change({}, {{"org.x", "1.0.0", "aa"}}) == "free: org.x is new");
  CHECK(change({{"org.x", "1.0.0", "aa"}}, {}) == "free: org.x is no longer used");
}

TEST_CASE("a run does not go on with plugins that are refused", "[recipe]") {
  const Plugins before = {{"org.b", "1.0.0", ""}, {"org.a", "1.0.0", ""}};
  CHECK_NOTHROW(refuse_changes(plugin_changes(before, before), "runs/a"));
  const auto found =
      plugin_changes(before, Plugins{{"org.b", "2.0.0", ""}, {"org.a", "1.1.0", ""}});
  try {
    refuse_changes(found, "runs/a");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "resume.plugin_changed");
    CHECK(error.exit_code() == ExitCode::kPlugin);
    CHECK_THAT(error.message(),
               contains_text("runs/a:\nrefused  org.b: version changed from 1.0.0 to 2.0.0\nuse"));
  }
}

}  // namespace tenon
