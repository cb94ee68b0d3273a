// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/run_folder.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <fstream>

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
  const auto check = [](const std::string& path) {
    try {
      RunFolder::check(path);
    } catch (const Error& error) {
      CHECK(error.id() == "run.dir_unwritable");
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(check(file.string()), contains_text("Not a directory"));
  CHECK_THAT(check((file / "below").string()), contains_text("Not a directory"));
  const std::string long_name(300, 'x');
  CHECK_THAT(check((scratch.path() / long_name).string()), contains_text("File name too long"));
  CHECK(check((scratch.path() / "new").string()).empty());
  CHECK(check(scratch.path().string()).empty());
}

TEST_CASE("the root of a new volume counts as empty, and keeps what its file system made",
          "[metrics]") {
  const ScratchFolder scratch;
  std::filesystem::create_directory(scratch.path() / "lost+found");
  scratch.write(".nfs0000000000000001", "");
  const RunFolder folder = RunFolder::create(scratch.path().string(), "name");
  folder.write("x.txt", "content");
  folder.discard();
  CHECK(std::filesystem::exists(scratch.path() / "lost+found"));
  CHECK_FALSE(std::filesystem::exists(scratch.path() / "x.txt"));
}

TEST_CASE("a refusal of a folder names a file in it", "[metrics]") {
  const ScratchFolder scratch;
  scratch.write("thesis.tex", "");
  try {
    RunFolder::create(scratch.path().string(), "name");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), contains_text("is not empty (it has thesis.tex)"));
  }
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

TEST_CASE("the folder of an earlier start keeps its contents, even if the new start fails",
          "[metrics]") {
  const ScratchFolder scratch;
  const auto file = scratch.write("run/metrics.jsonl", "content");
  const RunFolder folder = RunFolder::reopen((scratch.path() / "run").string());
  folder.write("recipe.json", "{}");
  folder.discard();
  CHECK(std::filesystem::exists(file));
  CHECK(std::filesystem::exists(folder.file("recipe.json")));
  try {
    RunFolder::reopen((scratch.path() / "elsewhere").string());
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_unwritable");
  }
}

TEST_CASE("a start that fails leaves a new folder empty, or removes it if it made it",
          "[metrics]") {
  const ScratchFolder scratch;
  const auto made = scratch.path() / "made";
  const auto empty = scratch.path() / "empty";
  std::filesystem::create_directory(empty);
  for (const auto& path : {made, empty}) {
    const RunFolder folder = RunFolder::create(path.string(), "name");
    folder.write("recipe.json", "{}");
    folder.discard();
  }
  CHECK_FALSE(std::filesystem::exists(made));
  CHECK(std::filesystem::is_empty(empty));
}

}  // namespace tenon
