// SPDX-License-Identifier: Apache-2.0
//
// What --print-schema prints for the first-party plugins, held against recipes: the shipped ones,
// and those of schema/cases.json, of which the program must think the same as the schema.
#include "host/cli/checked_recipe.hpp"
#include "host/cli/service_table.hpp"
#include "host/error/error.hpp"
#include "host/json/place.hpp"
#include "host/json/problem.hpp"
#include "host/json/schema_arbiter.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

using nlohmann::json;

json read_json(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in.good());
  return json::parse(std::string{std::istreambuf_iterator<char>(in), {}},
                     nullptr,
                     /*allow_exceptions=*/true,
                     /*ignore_comments=*/true);
}

class Desk {
 public:
  SubprocessResult host(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), host_program().string());
    arguments.insert(arguments.end(), {"--plugin-dir", plugin_dir().string()});
    SubprocessOptions options;
    options.working_dir = folder_.path().string();
    options.environment = {{"XDG_CACHE_HOME", (folder_.path() / "cache").string()}};
    return run_subprocess(arguments, options);
  }
  const ScratchFolder& folder() const { return folder_; }

 private:
  ScratchFolder folder_;
};

json printed_schema(const Desk& desk) {
  const SubprocessResult result = desk.host({"--print-schema"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

// "" where the schema allows the value, else where and why not.
std::string objection(const SchemaArbiter& arbiter, const json& value) {
  ProblemList problems;
  arbiter.check(value, "", PlaceMap(), problems);
  return problems.empty() ? ""
                          : problems.kept().front().pointer + ": " + problems.kept().front().note;
}

// What the program makes of the recipe: its frozen form, or the report of what is wrong.
struct Judgement {
  bool is_good = false;
  std::string text;
};

class Judge {
 public:
  Judge()
      : registry_({.folders = {{.path = plugin_dir().string(), .origin = "--plugin-dir"}},
                   .services = make_service_table(),
                   .vet_cache_file = ""}) {
    desk_.write("book.txt", std::string(4096, 'a'));
  }

  Judgement judge(const json& recipe) {
    const std::string file = desk_.write("recipe.json", recipe.dump(2)).string();
    try {
      return {true, frozen_recipe(check_recipe(read_recipe({.path = file}), registry_))};
    } catch (const RecipeErrors& errors) {
      return {false, errors.report()};
    }
  }

 private:
  ScratchFolder desk_;
  PluginRegistry registry_;
};

}  // namespace

TEST_CASE("the printed schema says of a recipe what the program says", "[cli]") {
  const SchemaArbiter arbiter(printed_schema(Desk()), "the printed schema");
  const json cases = read_json(source_dir() / "tests/host/cli/schema/cases.json");
  REQUIRE(cases["good"].size() >= 10);
  REQUIRE(cases["broken"].size() >= 48);
  Judge judge;
  for (const json& one : cases["good"]) {
    INFO(one["name"]);
    const json recipe = cases["base"].patch(one["patch"]);
    CHECK(objection(arbiter, recipe) == "");
    const Judgement program = judge.judge(recipe);
    INFO(program.text);
    CHECK(program.is_good);
    CHECK_THAT(program.text, !contains_text("$schema"));
    // What the program prints for it is a recipe too.
    CHECK(objection(arbiter, json::parse(program.text)) == "");
  }
  for (const json& one : cases["broken"]) {
    INFO(one["name"]);
    const json recipe = cases["base"].patch(one["patch"]);
    CHECK(objection(arbiter, recipe) != "");
    const Judgement program = judge.judge(recipe);
    CHECK_FALSE(program.is_good);
    CHECK_THAT(program.text, contains_text("[" + one["id"].get<std::string>() + "]"));
  }
}

TEST_CASE("each shipped recipe fits the printed schema", "[cli]") {
  const SchemaArbiter arbiter(printed_schema(Desk()), "the printed schema");
  int num_recipes = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() / "recipes")) {
    if (entry.path().extension() == ".json") {
      INFO(entry.path());
      CHECK(objection(arbiter, read_json(entry.path())) == "");
      ++num_recipes;
    }
  }
  CHECK(num_recipes >= 1);
}

TEST_CASE("a plugin that cannot be used is left out of the schema", "[cli]") {
  const Desk desk;
  fs::create_directories(desk.folder().path() / "zoo");
  for (const char* const name : {"good_c.so", "crashes_in_entry.so"}) {
    fs::copy_file(build_dir() / "tests/zoo" / name, desk.folder().path() / "zoo" / name);
  }
  const SubprocessResult result = desk.host({"--print-schema", "--plugin-dir", "zoo"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, contains_text("plugin.crashed"));
  const json schema = json::parse(result.out);
  CHECK_THAT(schema["description"].get<std::string>(), contains_text("org.tenon.mlp"));
  CHECK_THAT(result.out, !contains_text("crashes_in_entry"));
}

}  // namespace tenon
