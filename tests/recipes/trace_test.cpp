// SPDX-License-Identifier: Apache-2.0
//
// The order of events, against a file that was written by hand from the contract.
#include <fstream>
#include <sstream>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the events of a run come in the order of the contract", "[recipes]") {
  const auto folder = source_dir() / "tests/recipes/trace";
  const HostRun run(read(folder / "trace.json"));
  INFO(run.result().out << run.result().err);
  REQUIRE(run.result().exit_code == 0);
  std::istringstream expected(read(folder / "golden.jsonl"));
  std::istringstream found(run.file("events.jsonl"));
  std::string want;
  int number = 0;
  while (std::getline(expected, want)) {
    std::string have;
    std::getline(found, have);
    INFO("line " << ++number);
    REQUIRE(have == want);
  }
  std::string more;
  CHECK_FALSE(std::getline(found, more));
  CHECK_THAT(run.last_line(), contains_text("done: "));
  CHECK(run.summary()["updates"] == 3);  // of four steps, one was skipped
}

TEST_CASE("a skipped update changes no parameter", "[recipes]") {
  const std::string patch = R"({
    "data": {"shuffle": false, "batch_size": 24, "eval": {"type": "windows", "options": {"samples": 24}}},
    "train": {"steps": 2}, "eval": {"every_steps": 1},
    "hooks": [{"type": "request_at", "options": {"requests": [{"event": "before_step", "step": 2, "request": "skip_update"}]}}]
  })";
  const HostRun run(small_recipe(patch));
  REQUIRE(run.result().exit_code == 0);
  std::vector<double> eval;
  for (const auto& record : run.metrics()) {
    if (record.contains("eval/loss")) {
      eval.push_back(record["eval/loss"]);
    }
  }
  REQUIRE(eval.size() == 2);
  CHECK(eval[0] == eval[1]);
}

}  // namespace tenon
