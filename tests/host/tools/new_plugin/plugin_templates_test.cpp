// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_templates.hpp"

#include "host/error/error.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// Templates of a loss in C and C++, and the shared files.
void write_templates(const ScratchFolder& desk) {
  const std::string description =
      R"({"summary": "a loss", "lane": "stable", "link": ["m"], "flags": ["STABLE_TORCH"]})";
  desk.write("project/template.json",
             R"({"files": {"README.md": "what it is", "recipe.json": "a run"}})");
  desk.write("project/README.md", "# my_plugin\n");
  for (const std::string folder : {"loss-c", "loss-cpp"}) {
    desk.write(folder + "/template.json", description);
    desk.write(folder + "/recipe.json", "{}");
  }
  desk.write("loss-c/my_plugin.c", "int my_plugin;");
  desk.write("loss-cpp/my_plugin.cpp", "int my_plugin;");
}

std::string failure_of(const std::filesystem::path& program) {
  try {
    templates_folder(program);
  } catch (const Error& error) {
    CHECK(error.id() == "usage.no_templates");
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the templates are those of the build tree or of the installation", "[cli]") {
  const ScratchFolder desk;
  const std::filesystem::path program = desk.path() / "bin/tenon";
  const std::string missing = failure_of(program);
  CHECK_THAT(missing, contains_text((desk.path() / "share/tenon/templates").string()));
  CHECK_THAT(missing, contains_text("install the SDK"));
  std::filesystem::create_directories(desk.path() / "share/tenon/templates");
  CHECK(templates_folder(program) == desk.path() / "share/tenon/templates");
  CHECK(list_templates(templates_folder(host_program())).size() >= 6);
}

TEST_CASE("a template has its own files and the shared ones", "[cli]") {
  const ScratchFolder desk;
  write_templates(desk);
  const std::vector<PluginTemplate> all = list_templates(desk.path());
  REQUIRE(all.size() == 2);
  CHECK(all[0].language == "c");
  CHECK(all[1].language == "c++");
  CHECK(&choose_template(all, "loss", "") == &all[1]);
  const TemplateText text = read_template(choose_template(all, "loss", "c"));
  CHECK(text.summary == "a loss");
  CHECK(text.lane == "stable");
  CHECK(text.link == std::vector<std::string>{"m"});
  CHECK(text.flags == std::vector<std::string>{"STABLE_TORCH"});
  CHECK(text.required_services.empty());
  CHECK(text.sources == std::vector<std::string>{"my_plugin.c"});
  REQUIRE(text.files.size() == 3);
  CHECK(text.files[0].path == "README.md");
  CHECK(text.files[0].content == "what it is");
  CHECK(text.files[1].content == "a loss");
  CHECK(text.files[2].path == "recipe.json");
}

TEST_CASE("a kind can have several templates in a language", "[cli]") {
  const ScratchFolder desk;
  write_templates(desk);
  desk.write("dataset-cpp/template.json", "{}");
  desk.write("dataset-cpp-stream/template.json", "{}");
  const std::vector<PluginTemplate> all = list_templates(desk.path());
  CHECK(choose_template(all, "dataset", "").language == "c++");
  CHECK(choose_template(all, "dataset", "c++-stream").folder == desk.path() / "dataset-cpp-stream");
}

TEST_CASE("broken templates are reported with their file", "[cli]") {
  for (const std::string description : {"",
                                        "[]",
                                        "{",
                                        R"({"summary": "a"})",
                                        R"({"summary": 1, "lane": "stable"})",
                                        R"({"summary": "a", "lane": "stable", "link": "m"})"}) {
    CAPTURE(description);
    const ScratchFolder desk;
    write_templates(desk);
    desk.write("loss-c/template.json", description);
    const std::vector<PluginTemplate> all = list_templates(desk.path());
    try {
      read_template(choose_template(all, "loss", "c"));
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.id() == "usage.no_templates");
      CHECK_THAT(error.what(), contains_text("loss-c/template.json"));
    }
  }
  const ScratchFolder empty;
  CHECK_THROWS_AS(list_templates(empty.path()), Error);
  CHECK_THROWS_AS(list_templates(empty.path() / "missing"), Error);
}

}  // namespace tenon
