// SPDX-License-Identifier: Apache-2.0
//
// The check of sdk/cmake that follows the linking of each plugin, on files that it would not pass.
#include <filesystem>
#include <string>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/subprocess.hpp"

using namespace tenon;

namespace {

SubprocessResult check_plugin(const std::string& file, const std::string& id) {
  return run_subprocess({"cmake",
                         "-D",
                         "PLUGIN=" + file,
                         "-D",
                         "LANE=stable",
                         "-D",
                         "ID=" + id,
                         "-D",
                         "LIBRARY_PATH=",
                         "-D",
                         "NM=nm",
                         "-D",
                         "READELF=readelf",
                         "-P",
                         (source_dir() / "sdk/cmake/TenonCheckPlugin.cmake").string()});
}

}  // namespace

TEST_CASE("the check after linking passes a plugin that exports its entry alone", "[plugin]") {
  ZooFolder zoo;
  for (const char* const name : {"good_c", "good_range", "throws_in_static"}) {
    const std::string file = zoo.add(name);
    const SubprocessResult result = check_plugin(file, std::string("org.tenon.zoo.") + name);
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(std::filesystem::exists(file));
  }
}

TEST_CASE("the check after linking refuses a plugin with a unique symbol, and removes it",
          "[plugin]") {
  ZooFolder zoo;
  const std::string file = zoo.add("shares_a");
  const SubprocessResult result = check_plugin(file, "org.tenon.zoo.shares_a");
  INFO(result.err);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, contains_text("symbol(s) that all plugins of a process share"));
  CHECK_THAT(result.err, contains_text("the first is Counter::"));  // demangled
  CHECK_THAT(result.err, contains_text("tenon_plugin.map, or compile it with -fno-gnu-unique"));
  CHECK_FALSE(std::filesystem::exists(file));
}
