// SPDX-License-Identifier: Apache-2.0
//
// --table NAME --id N on the whole program: a row as a run left it in files, and as a recipe has it
// start.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

// 24 samples with ids 0 to 23; the rows of those that a step has read are in tables "sample_id" and
// "labels".
std::string table_recipe() {
  return small_recipe(R"({
    "model": {"type": "lookup_net", "options": null},
    "tables": {"*": {"optimizer": {"type": "rowwise_adagrad",
                                   "options": {"lr": 0.1, "initial_accumulator_value": 0.25}}}},
    "train": {"steps": 6}
  })");
}

SubprocessResult host(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {host_program().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_subprocess(words);
}

struct StartArguments {
  explicit StartArguments(const std::filesystem::path& folder)
      : words({"--recipe",
               (folder / "recipe.json").string(),
               "--plugin-dir",
               plugin_dir().string(),
               "--plugin-dir",
               test_plugin_dir().string()}) {}
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> words;
};

TEST_CASE("a row is shown as a run left it and as the recipe has it start", "[recipes]") {
  const ScratchFolder scratch;
  const std::string rows = (scratch.path() / "rows").string();
  const HostRun run(table_recipe(), {"--export-tables", rows, "--export-slots"});
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const StartArguments recipe(run.folder());

  const SubprocessResult first = host(recipe.with({"--table", "sample_id", "--id", "7", "--json"}));
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const nlohmann::json start = nlohmann::json::parse(first.out);
  CHECK(start["table"] == "sample_id");
  CHECK(start["id"] == 7);
  CHECK(start["place"] == "as it starts");
  CHECK(start["columns"]["slot.sum"] == 0.25);

  const SubprocessResult last =
      host({"--table", "sample_id", "--id", "7", "--from", rows, "--json"});
  INFO(last.err);
  REQUIRE(last.exit_code == 0);
  const nlohmann::json end = nlohmann::json::parse(last.out);
  CHECK(end["place"] == (std::filesystem::path(rows) / "sample_id.parquet").string());
  CHECK(end["columns"]["count"] == 1);
  REQUIRE(end["columns"]["vector"].size() == 4);
  CHECK(end["columns"]["vector"] != start["columns"]["vector"]);
  const auto step = end["columns"]["last_step"].get<int>();
  CHECK(step >= 1);
  CHECK(step <= 6);
  // The mean square of the gradient was added to what the sum began with.
  CHECK(end["columns"]["slot.sum"].get<double>() > 0.25);

  const SubprocessResult lines = host({"--table", "sample_id", "--id", "7", "--from", rows});
  CHECK_THAT(lines.out, contains_text("table sample_id, id 7, " + rows));
  CHECK_THAT(lines.out, contains_text("\n  count      1\n"));
}

TEST_CASE("an id without a row, an unknown table and an unknown folder are told apart",
          "[recipes][.release]") {
  const ScratchFolder scratch;
  const std::string rows = (scratch.path() / "rows").string();
  const HostRun run(table_recipe(), {"--export-tables", rows});
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);

  const SubprocessResult id = host({"--table", "sample_id", "--id", "24", "--from", rows});
  CHECK(id.out.empty());
  CHECK(id.exit_code == 2);
  CHECK_THAT(id.err, contains_text("[table.no_row]"));
  CHECK_THAT(id.err, contains_text("table 'sample_id' has no row of id 24 in " + rows));

  const SubprocessResult table = host({"--table", "samples", "--id", "1", "--from", rows});
  CHECK(table.out.empty());
  CHECK_THAT(table.err, contains_text("[table.bad_file]"));
  CHECK_THAT(table.err, contains_text("has no rows of table 'samples'"));
  CHECK_THAT(table.err, contains_text("it has those of labels, sample_id"));

  const SubprocessResult folder =
      host({"--table", "sample_id", "--id", "1", "--from", rows + "/none"});
  CHECK_THAT(folder.err, contains_text("[table.bad_file]"));
  CHECK_THAT(folder.err, contains_text("--export-tables"));

  const StartArguments recipe(run.folder());
  const SubprocessResult planned = host(recipe.with({"--table", "samples", "--id", "1"}));
  CHECK(planned.out.empty());
  CHECK(planned.exit_code == 3);
  CHECK_THAT(planned.err, contains_text("[table.unknown]"));
  CHECK_THAT(planned.err, contains_text("its tables: sample_id, labels"));
  // Each id has first values, whether a run sees it or not.
  CHECK(host(recipe.with({"--table", "sample_id", "--id", "24"})).exit_code == 0);
}

}  // namespace
}  // namespace tenon
