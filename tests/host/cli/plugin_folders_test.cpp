// SPDX-License-Identifier: Apache-2.0
#include "host/cli/plugin_folders.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("named folders come first, then those of the variable", "[cli]") {
  const auto folders = choose_plugin_folders({"a", "b"}, "c:/d", "/nowhere/bin/host");
  REQUIRE(folders.size() == 4);
  CHECK(folders[0].path == "a");
  CHECK(folders[0].origin == "--plugin-dir");
  CHECK(folders[1].path == "b");
  CHECK(folders[2].path == "c");
  CHECK(folders[2].origin == "TENON_PLUGIN_PATH");
  CHECK(folders[3].path == "/d");
}

TEST_CASE("without a name, the folder beside the program's is taken", "[cli]") {
  const ScratchFolder folder;
  folder.write("build/bin/host", "");
  folder.write("build/plugins/x.so", "");
  folder.write("build/lib/tenon/plugins/x.so", "");
  const auto folders = choose_plugin_folders({}, "", folder.path() / "build/bin/host");
  REQUIRE(folders.size() == 1);
  CHECK(folders[0].path == (folder.path() / "build/plugins").string());
  CHECK(folders[0].origin == "the default");
  // A variable that is set wins over it.
  CHECK(choose_plugin_folders({}, "x", folder.path() / "build/bin/host").front().path == "x");
}

TEST_CASE("the default folder that named folders replace is known", "[cli]") {
  const ScratchFolder folder;
  folder.write("build/bin/host", "");
  folder.write("build/plugins/x.so", "");
  folder.write("own/y.so", "");
  const auto program = folder.path() / "build/bin/host";
  const std::string own = (folder.path() / "own").string();
  const std::string usual = (folder.path() / "build/plugins").string();
  CHECK(unsearched_plugin_folder({{own, "--plugin-dir"}}, program) == usual);
  CHECK(unsearched_plugin_folder({{own, "--plugin-dir"}, {usual + "/../plugins", "x"}}, program) ==
        "");
  CHECK(unsearched_plugin_folder({{own, "--plugin-dir"}}, folder.path() / "bin/host") == "");
}

TEST_CASE("an installed program finds the plugins that were installed with it", "[cli]") {
  const ScratchFolder folder;
  folder.write("bin/tenon", "");
  const auto installed = (folder.path() / "bin" / TENON_INSTALLED_PLUGINS).lexically_normal();
  folder.write(std::filesystem::relative(installed, folder.path()) / "x.so", "");
  const auto folders = choose_plugin_folders({}, "", folder.path() / "bin/tenon");
  REQUIRE(folders.size() == 1);
  CHECK(folders[0].path == installed.string());
}

TEST_CASE("where there is no plugin folder, the message says how to name one", "[cli]") {
  const ScratchFolder folder;
  try {
    (void)choose_plugin_folders({}, "::", folder.path() / "bin/host");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "usage.no_plugin_dir");
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK_THAT(error.message(), contains_text((folder.path() / "plugins").string() + " nor "));
    CHECK_THAT(error.message(), contains_text("--plugin-dir DIR or in TENON_PLUGIN_PATH"));
  }
}

}  // namespace tenon
