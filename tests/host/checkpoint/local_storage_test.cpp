// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/local_storage.hpp"

#include "host/checkpoint/commit_record.hpp"
#include "host/error/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/host/checkpoint/storage_contract.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {
bool keeps_folders = false;
}  // namespace

// Replaces the system's for the library that removes folders: over NFS, a folder stays while a
// process has one of its files open.
extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  if (keeps_folders && (flags & AT_REMOVEDIR) != 0) {
    errno = ENOTEMPTY;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}
extern "C" int rmdir(const char* name) noexcept {
  return ::unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

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

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
}

// What may lie in place of a file; returns its name.
std::string put_special(const fs::path& path, bool is_fifo) {
  fs::remove_all(path);
  if (is_fifo) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    return "a FIFO";
  }
  fs::create_directories(path / "inside");
  return "a folder";
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
  CHECK(file_text(folder.path() / "step-2/COMMITTED") == commit_record_text(2, "step-2"));
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

TEST_CASE("a folder whose files are open over NFS is no error, and goes with a later save",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  save_checkpoint(storage, "step-2", 2);
  keeps_folders = true;
  CHECK(message_of([&] { storage.remove("step-1"); }).empty());
  CHECK(storage.list() == Names{"step-2"});
  save_checkpoint(storage, "step-3", 3);
  keeps_folders = false;
  CHECK(storage.list() == Names{"step-2", "step-3"});
  save_checkpoint(storage, "step-4", 4);
  CHECK(names_in(folder.path()) == Names{"latest", "step-2", "step-3", "step-4"});
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

TEST_CASE("folders with names that are not valid are skipped, and never changed", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  const std::string copy = "step-1 (copy)";
  copy_folder(folder.path() / "step-1", folder.path() / copy);
  copy_folder(folder.path() / "step-1", folder.path() / "lost+found");
  // As a copy of what a dead process left.
  folder.write("step-0 (copy)/COMMITTED.tmp", commit_record_text(1, "step-0"));
  CHECK(storage.list() == Names{"step-1"});
  CHECK(storage.skipped() == Names{"lost+found", copy});
  save_checkpoint(storage, "step-2", 2);
  storage.remove("step-1");
  CHECK(storage.list() == Names{"step-2"});
  CHECK(names_in(folder.path()) == Names{"latest", "lost+found", "step-0 (copy)", copy, "step-2"});
  CHECK(names_in(folder.path() / copy) == Names{"COMMITTED", "a", "b"});
}

TEST_CASE("a copy of a checkpoint is listed before it, with the name that it was committed under",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  save_checkpoint(storage, "step-2", 2);
  for (const char* const copy : {"a", "step-2.bak", "z"}) {
    copy_folder(folder.path() / "step-2", folder.path() / copy);
    CHECK(storage.commit_record(copy)->name == "step-2");
  }
  CHECK(storage.list() == Names{"step-1", "step-2.bak", "a", "z", "step-2"});
  check_checkpoint(storage, "step-2.bak", 2);
  // One that an earlier release wrote does not say so.
  folder.write("step-2/COMMITTED", "2\n");
  folder.write("step-2.bak/COMMITTED", "2\n");
  fs::remove_all(folder.path() / "a");
  fs::remove_all(folder.path() / "z");
  CHECK(storage.list() == Names{"step-1", "step-2.bak", "step-2"});
  CHECK_FALSE(storage.commit_record("step-2.bak")->has_checksum());
  storage.remove("step-1");
  CHECK(file_text(folder.path() / "latest") == "step-2\n");
}

TEST_CASE("a copy of a leftover is left alone", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  folder.write("step-1/COMMITTED.tmp", commit_record_text(1, "step-1"));
  folder.write("step-1.bak/COMMITTED.tmp", commit_record_text(1, "step-1"));
  folder.write("step-2/COMMITTED.tmp", "no record");
  save_checkpoint(storage, "step-3", 3);
  CHECK(names_in(folder.path()) == Names{"latest", "step-1.bak", "step-2", "step-3"});
}

TEST_CASE("a flipped bit anywhere in COMMITTED is found, whichever checkpoint it is of",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  const Names names = {"step-1", "step-2", "step-3"};
  for (const std::string& name : names) {
    save_checkpoint(storage, name, name.back());
  }
  for (const std::string& name : names) {
    const fs::path file = folder.path() / name / "COMMITTED";
    const std::string text = file_text(file);
    Names expected = names;  // the others in their order; it comes last
    std::erase(expected, name);
    expected.push_back(name);
    for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      folder.write(name + "/COMMITTED", flipped);
      INFO(name << ", bit " << bit << ": " << flipped);
      CHECK(storage.list() == expected);
      CHECK_THAT(message_of([&] { storage.list_files(name); }),
                 contains_text("[checkpoint.damaged] " + file.string() + " is corrupt"));
    }
    folder.write(name + "/COMMITTED", text);
    CHECK(storage.list() == names);
  }
}

TEST_CASE("no number in COMMITTED keeps the next checkpoint from being the newest",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  save_checkpoint(storage, "step-1", 1);
  // By an earlier release; the largest number wrapped to 0.
  for (const char* const record : {"18446744073709551615\n", "1000000000001\n", "\n", ""}) {
    INFO(record);
    folder.write("odd/COMMITTED", record);
    CHECK(storage.list() == Names{"step-1", "odd"});
    LocalStorage next(folder.path().string());
    save_checkpoint(next, "step-2", 2);
    CHECK(next.list() == Names{"step-1", "step-2", "odd"});
    CHECK(file_text(folder.path() / "latest") == "step-2\n");
    // Its number is not known: also larger than any that it may have had.
    CHECK(next.commit_record("step-2")->sequence == 1'000'001);
    next.remove("step-2");
  }
  folder.write("odd/COMMITTED", "1000000000000\n");
  save_checkpoint(storage, "step-3", 3);
  CHECK(storage.list() == Names{"step-1", "odd", "step-3"});
  CHECK(storage.commit_record("step-3")->sequence == 1'000'000'000'001);
  folder.write("end/COMMITTED", commit_record_text(kMaxSequence, "end"));
  storage.open("step-4", true);
  CHECK_THAT(message_of([&] { storage.commit("step-4"); }),
             contains_text("no larger number is left; move that checkpoint away"));
  fs::remove_all(folder.path() / "end");
  LocalStorage(folder.path().string()).commit("step-4");
  CHECK(storage.list() == Names{"step-1", "odd", "step-3", "step-4"});
}

TEST_CASE("a folder or a FIFO in place of a file costs one checkpoint, and nobody waits for it",
          "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  for (const char* const name : {"step-1", "step-2", "step-3"}) {
    save_checkpoint(storage, name, 1);
  }
  for (const bool is_fifo : {false, true}) {
    const std::string kind = put_special(folder.path() / "step-2/COMMITTED", is_fifo);
    INFO(kind);
    CHECK(storage.list() == Names{"step-1", "step-3", "step-2"});
    CHECK_THAT(message_of([&] { storage.list_files("step-2"); }),
               contains_text("[checkpoint.damaged]") && contains_text("it is " + kind));
    put_special(folder.path() / "step-3/a", is_fifo);
    CHECK_THAT(message_of([&] { storage.file_size("step-3", "a"); }),
               contains_text("[checkpoint.damaged]") && contains_text("/step-3/a is " + kind));
    CHECK_THAT(message_of([&] { storage.read("step-3", "a", 0, {}); }),
               contains_text("[checkpoint.damaged]") && contains_text("it is " + kind));
    put_special(folder.path() / "latest", is_fifo);
    CHECK_THAT(message_of([&] { storage.latest(); }), contains_text("[checkpoint.damaged]"));
    const std::string next = is_fifo ? "step-5" : "step-4";
    save_checkpoint(storage, next, 4);
    check_checkpoint(storage, next, 4);
    storage.remove(next);
    CHECK(storage.list() == Names{"step-1", "step-3", "step-2"});
  }
  // A FIFO could be replaced.
  CHECK(file_text(folder.path() / "latest") == "step-3\n");
}

TEST_CASE("symbolic links to a root, a checkpoint and a file are followed", "[checkpoint]") {
  const ScratchFolder folder;
  LocalStorage storage((folder.path() / "real").string());
  save_checkpoint(storage, "step-1", 1);
  fs::create_directory_symlink(folder.path() / "real", folder.path() / "link");
  LocalStorage linked((folder.path() / "link").string());
  save_checkpoint(linked, "step-2", 2);
  check_checkpoint(linked, "step-1", 1);
  fs::rename(folder.path() / "real/step-1", folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", folder.path() / "real/step-1");
  fs::rename(folder.path() / "elsewhere/COMMITTED", folder.path() / "record");
  fs::create_symlink(folder.path() / "record", folder.path() / "elsewhere/COMMITTED");
  CHECK(linked.list() == Names{"step-1", "step-2"});
  check_checkpoint(linked, "step-1", 1);
  // A link that leads nowhere, or to itself, is no checkpoint.
  fs::create_symlink("loop", folder.path() / "real/loop");
  fs::create_symlink("nothing", folder.path() / "real/dangling");
  CHECK(storage.list() == Names{"step-1", "step-2"});
  save_checkpoint(storage, "step-3", 3);
}

}  // namespace tenon
