// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/run_folder.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string id_of(const std::string& path) {
  try {
    RunFolder::create(path, "name");
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

}  // namespace

TEST_CASE("a run folder is made with its parents, or must be empty", "[metrics]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "a/b").string();
  const RunFolder folder = RunFolder::create(path, "name");
  folder.write("x.txt", "content");
  std::ifstream file(path + "/x.txt");
  std::string text;
  std::getline(file, text);
  CHECK(text == "content");
  CHECK_FALSE(std::filesystem::exists(path + "/x.txt.tmp"));
  CHECK(id_of(path) == "run.dir_exists");
}

TEST_CASE("a run folder that cannot be made is told, whoever asks", "[metrics]") {
  const ScratchFolder scratch;
  const auto file = scratch.write("file", "");
  CHECK(id_of((file / "below").string()) == "run.dir_unwritable");  // true for root too
}

TEST_CASE("ranks keep their logs in the folder that rank 0 has made", "[metrics]") {
  const ScratchFolder scratch;
  const RunFolder folder = RunFolder::create((scratch.path() / "a").string(), "name");
  for (int rank = 1; rank < 3; ++rank) {
    const RunFolder joined = RunFolder::join(folder.full_path());
    std::ofstream(joined.file("logs/rank-" + std::to_string(rank) + ".txt")) << "line";
  }
  CHECK(std::filesystem::exists(folder.file("logs/rank-2.txt")));
  std::string said;
  try {
    RunFolder::join((scratch.path() / "elsewhere").string());
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK_THAT(said, contains_text("[run.dir_unwritable]"));
  CHECK_THAT(said, contains_text("use a folder that all ranks share"));
}

TEST_CASE("a run that is started again begins anew in its folder, beside its logs", "[metrics]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "a").string();
  CHECK_FALSE(RunFolder::reopen(path).has_value());
  const RunFolder folder = RunFolder::create(path, "name");
  CHECK_FALSE(RunFolder::reopen(path).has_value());  // nobody knows whose it is
  RunFolder::join(path);
  for (const char* name : {"recipe.json", "log.txt", "logs/rank-1.txt", "metrics.jsonl"}) {
    folder.write(name, "content");
  }
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      found.insert(std::filesystem::relative(entry.path(), path).string());
    }
    return found;
  };
  const std::set<std::string> logs = {"log.txt", "logs", "logs/rank-1.txt"};
  const auto again = RunFolder::reopen(path);
  REQUIRE(again.has_value());
  CHECK(names() == logs);
  again->write("recipe.json", "content");
  again->discard();
  CHECK(names() == logs);
}

TEST_CASE("a run that goes on keeps what is in its folder, also where it comes to nothing",
          "[metrics]") {
  const ScratchFolder scratch;
  const auto file = scratch.write("run/metrics.jsonl", "content");
  const RunFolder folder = RunFolder::resume((scratch.path() / "run").string());
  folder.write("recipe.json", "{}");
  folder.discard();
  CHECK(std::filesystem::exists(file));
  CHECK(std::filesystem::exists(folder.file("recipe.json")));
  try {
    RunFolder::resume((scratch.path() / "elsewhere").string());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_unwritable");
  }
}

}  // namespace tenon
