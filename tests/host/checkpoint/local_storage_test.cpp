// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/local_storage.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <functional>
#include <unistd.h>

#include "tests/host/checkpoint/storage_contract.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("local files are a storage", "[checkpoint]") {
  const ScratchFolder folder;
  const std::string root = (folder.path() / "runs/a/checkpoints").string();
  check_storage_contract([&] { return std::make_unique<LocalStorage>(root); });
}

TEST_CASE("a local bundle is a folder with its files and COMMITTED, and latest names the newest",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  save_checkpoint(storage, "step-2", 2);
  CHECK(names_in(folder.path()) == Names{"latest", "step-1", "step-2"});
  CHECK(names_in(folder.path() / "step-2") == Names{"COMMITTED", "a", "b"});
  CHECK(file_text(folder.path() / "latest") == "step-2\n");
  CHECK(file_text(folder.path() / "step-2/COMMITTED") == "2\n");
  CHECK(storage.address("step-2") == (folder.path() / "step-2").string());
  storage.remove("step-2");
  CHECK(file_text(folder.path() / "latest") == "step-1\n");
  storage.remove("step-1");
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("what dead processes have left of local bundles goes with the next open",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  folder.write(".open-step-2/a", "begun");
  folder.write(".gone-step-3/a", "half removed");
  folder.write("step-4/a", "renamed, not committed");
  folder.write("step-4/COMMITTED.tmp", "2\n");
  CHECK(storage.list() == Names{"step-1"});
  save_checkpoint(storage, "step-5", 5);
  CHECK(names_in(folder.path()) == Names{"latest", "step-1", "step-5"});
}

TEST_CASE("folders and files beside local bundles are left alone", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  folder.write("notes/a.txt", "mine");
  folder.write("step-1/a.txt", "mine");
  folder.write("readme", "mine");
  CHECK(storage.list().empty());
  CHECK_THAT(message_of([&] { storage.open("step-1", true); }), contains_text("[storage.exists]"));
  CHECK_THAT(message_of([&] { storage.open("step-1", true); }),
             contains_text("is not a checkpoint"));
  storage.remove("step-1");
  storage.abort("step-1");
  save_checkpoint(storage, "step-2", 2);
  CHECK(names_in(folder.path()) == Names{"latest", "notes", "readme", "step-1", "step-2"});
  CHECK(file_text(folder.path() / "step-1/a.txt") == "mine");
}

TEST_CASE("a commit that failed can be made again", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  storage.open("step-1", true);
  write_file(storage, "step-1", "a", "text");
  folder.write("step-1/in-the-way", "");
  CHECK_THAT(message_of([&] { storage.commit("step-1"); }), contains_text("[storage.io]"));
  CHECK(storage.list().empty());
  fs::remove_all(folder.path() / "step-1");
  storage.commit("step-1");
  CHECK(read_file(storage, "step-1", "a") == "text");
}

TEST_CASE("a folder that machines do not share is told on the second rank", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  CHECK_THAT(message_of([&] { storage.open("step-1", false); }),
             contains_text("on storage that all machines share"));
}

TEST_CASE("errors of the disk name the path and the system's reason", "[checkpoint]") {
  const ScratchFolder folder;
  const fs::path file = folder.write("file", "no folder");
  LocalStorage storage((file / "checkpoints").string());
  CHECK_THAT(message_of([&] { storage.open("step-1", true); }),
             contains_text("[storage.io] cannot create the folder " + file.string() +
                           "/checkpoints: Not a directory"));
  if (geteuid() != 0) {
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    LocalStorage closed((folder.path() / "checkpoints").string());
    const std::string message = message_of([&] { closed.open("step-1", true); });
    fs::permissions(folder.path(), fs::perms::owner_all);
    CHECK_THAT(message, contains_text("Permission denied; check that it is writable"));
  }
}

}  // namespace tenon
