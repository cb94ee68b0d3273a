// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_project.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TemplateText small_template() {
  return {
      .summary = "a loss",
      .lane = "stable",
      .flags = {"STABLE_TORCH"},
      .link = {"m"},
      .required_services = {"tenon.op/1"},
      .sources = {"my_plugin.c"},
      .files = {{"CMakeLists.txt",
                 "project(my_plugin @LANGUAGES@)\nadd(my_plugin @ID@ @KIND@ @LANE@ "
                 "@SOURCES@@ARGUMENTS@)\n",
                 "the build"},
                {"README.md", "# my_plugin: @SUMMARY@\n@FILES@\n@COMMANDS@\n@DESCRIBE@\n", "text"},
                {"my_plugin.c", "struct MyPlugin Inputs; // MY_PLUGIN @a@b.c", "the code"}}};
}

TenonPaths paths() {
  return {.program = "/opt/my tenon/bin/tenon", .prefix = "/opt/my tenon", .plugins = "/p"};
}

}  // namespace

TEST_CASE("a project is its template under another name", "[cli]") {
  const PluginProject project =
      make_project("loss", small_template(), {.name = "a_focal", .id = "com.my_plugin.x"}, paths());
  REQUIRE(project.files.size() == 3);
  CHECK(project.files[0].text ==
        "project(a_focal C)\nadd(a_focal com.my_plugin.x loss stable a_focal.c\n"
        "  STABLE_TORCH\n  REQUIRES tenon.op/1\n  LINK m)\n");
  CHECK(
      project.files[1].text ==
      "# a_focal: a loss\n"
      "| `CMakeLists.txt` | the build |\n"
      "| `a_focal.c` | the code |\n"
      "cmake -B build '-DCMAKE_PREFIX_PATH=/opt/my tenon'\n"
      "cmake --build build\n"
      "ctest --test-dir build --output-on-failure\n"
      "'/opt/my tenon/bin/tenon' --recipe recipe.json --plugin-dir build/plugins --plugin-dir /p\n"
      "'/opt/my tenon/bin/tenon' --describe loss:a_focal --plugin-dir build/plugins\n");
  CHECK(project.files[2].path == "a_focal.c");
  CHECK(project.files[2].text == "struct AFocal Inputs; // A_FOCAL @a@b.c");
  CHECK(project.commands.size() == 4);
}

TEST_CASE("a name that means something else in the template is rejected", "[cli]") {
  const auto failure = [](const std::string& name) -> std::string {
    try {
      make_project("loss", small_template(), {.name = name, .id = "a.b"}, paths());
    } catch (const Error& error) {
      CHECK(error.id() == "usage.bad_option");
      return error.what();
    }
    return "no error";
  };
  CHECK_THAT(failure("m"), contains_text("is a library that the plugin links"));
  CHECK_THAT(failure("inputs"), contains_text("would define Inputs"));
  CHECK(make_project("loss", small_template(), {.name = "my_plugin", .id = "a.b"}, paths())
            .files[2]
            .text == small_template().files[2].text);
}

}  // namespace tenon
