// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/unsaved_run.hpp"

#include <string>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a run of the same name that was lost may start over in its folder", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  CHECK_FALSE(is_unsaved_run(path, "a"));  // no run
  folder.write("recipe.json", R"({"name": "a", "checkpoint": {"keep_last": 1}})");
  CHECK(is_unsaved_run(path, "a"));  // killed: it has no summary
  CHECK_FALSE(is_unsaved_run(path, "b"));
  folder.write("summary.json", R"({"outcome": "failed"})");
  CHECK(is_unsaved_run(path, "a"));
  folder.write("summary.json", R"({"outcome": "done"})");
  CHECK_FALSE(is_unsaved_run(path, "a"));
  folder.write("summary.json", "cut off");
  CHECK_FALSE(is_unsaved_run(path, "a"));
  folder.write("recipe.json", R"({"name": "a"})");
  CHECK_FALSE(is_unsaved_run(path, "a"));
}

TEST_CASE("a FIFO in place of a file of a run is not waited for", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  REQUIRE(::mkfifo((path + "/recipe.json").c_str(), 0600) == 0);
  CHECK_FALSE(is_run_of(path, "a"));
  const ScratchFolder other;
  other.write("recipe.json", R"({"name": "a", "checkpoint": {"keep_last": 1}})");
  REQUIRE(::mkfifo((other.path() / "summary.json").c_str(), 0600) == 0);
  CHECK_FALSE(is_unsaved_run(other.path().string(), "a"));
}

TEST_CASE("a run folder is of the run that its recipe names", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  CHECK_FALSE(is_run_of(path, "a"));
  folder.write("recipe.json", R"({"name": "a"})");
  CHECK(is_run_of(path, "a"));
  CHECK_FALSE(is_run_of(path, "b"));
  folder.write("recipe.json", "cut off");
  CHECK_FALSE(is_run_of(path, "a"));
}

TEST_CASE("a recipe or summary that nests without bound is of no run", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  folder.write("recipe.json", R"({"name": )" + deep + R"(, "checkpoint": {}})");
  CHECK_FALSE(is_run_of(path, "a"));
  CHECK_FALSE(is_unsaved_run(path, "a"));
  folder.write("recipe.json", R"({"name": "a", "checkpoint": {}})");
  folder.write("summary.json", R"({"outcome": )" + deep + "}");
  CHECK_FALSE(is_unsaved_run(path, "a"));
}

}  // namespace tenon
