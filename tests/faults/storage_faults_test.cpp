// SPDX-License-Identifier: Apache-2.0
//
// Local storage on a disk that fails: at each call that a save or a removal makes, in turn.
#include "host/checkpoint/local_storage.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/host/checkpoint/storage_contract.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// A folder with the bundles "old" and "older" in it, and a process that saves "new" or removes one.
class FaultyFolder {
 public:
  FaultyFolder() {
    save_checkpoint(storage, "older", 1);
    save_checkpoint(storage, "old", 2);
  }

  SubprocessResult run(const std::string& what,
                       const std::string& name,
                       std::map<std::string, std::string> environment) const {
    environment["LD_PRELOAD"] = TENON_FAULTY_DISK;
    environment["TENON_FAULT_PATH"] = root();
    return run_subprocess({TENON_BUNDLE_WRITER, what, root(), name}, {.environment = environment});
  }

  // The calls of a run without a fault.
  Names calls(const std::string& what, const std::string& name) const {
    const fs::path log = folder_.path() / "calls";
    const SubprocessResult result = run(what, name, {{"TENON_FAULT_LOG", log.string()}});
    INFO(result.err);
    CHECK(result.exit_code == 0);
    return file_lines(log);
  }

  std::string root() const { return (folder_.path() / "checkpoints").string(); }

  bool has(const std::string& checkpoint) {
    return std::ranges::count(storage.list(), checkpoint) == 1;
  }

  // All that must hold after any fault.
  void check_sound() {
    for (const std::string& name : storage.list()) {
      CHECK(storage.list_files(name) == Names{"a", "b"});
      if (name == "new") {
        CHECK((read_file(storage, name, "a") == std::string(10u << 20, 'a')));
        CHECK((read_file(storage, name, "b") == std::string(2000, 'b')));
      } else {
        check_checkpoint(storage, name, name == "old" ? 2 : 1);
      }
    }
    const std::string latest = file_text(root() + "/latest");
    if (!latest.empty() || fs::exists(root() + "/latest")) {
      CHECK(has(latest.substr(0, latest.size() - 1)));
    }
  }

  // The next save clears away what is left, and leaves nothing else.
  void check_cleared() {
    Names expected = storage.list();
    save_checkpoint(storage, "next", 3);
    expected.insert(expected.end(), {"latest", "next"});
    std::ranges::sort(expected);
    CHECK(names_in(root()) == expected);
    CHECK(storage.list().back() == "next");
    CHECK(file_text(root() + "/latest") == "next\n");
  }

 private:
  ScratchFolder folder_;

 public:
  LocalStorage storage{root()};
};

const char* const kActions[] = {"EIO", "ENOSPC", "short", "crash", "power"};

}  // namespace

TEST_CASE("whichever call of a save fails, old checkpoints are valid and the new one is atomic",
          "[faults]") {
  const Names calls = FaultyFolder().calls("save", "new");
  // Files opened, written in pieces, begun early and synced; folder made, synced, renamed; record.
  REQUIRE(calls.size() > 20);
  for (const char* kind : {"open", "write", "writeback", "sync", "rename", "mkdir"}) {
    INFO(kind);
    CHECK(std::ranges::any_of(
        calls, [&](const std::string& call) { return call.starts_with(std::string(kind) + " "); }));
  }
  int failures = 0;
  int there = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const std::string action : kActions) {
      if (action == "short" && !calls[i].starts_with("write ")) {
        continue;
      }
      INFO(action << " at call " << i + 1 << ": " << calls[i]);
      FaultyFolder folder;
      const SubprocessResult result = folder.run(
          "save", "new", {{"TENON_FAULT_DO", action}, {"TENON_FAULT_NTH", std::to_string(i + 1)}});
      INFO(result.err);
      CHECK(folder.has("older"));
      CHECK(folder.has("old"));
      folder.check_sound();
      if (action == "crash" || action == "power") {
        CHECK(result.exit_code == 128 + 9);
      } else if (action == "short") {
        CHECK(result.exit_code == 0);
      } else if (result.exit_code != 0) {
        CHECK(result.exit_code == 1);
        CHECK_THAT(result.err, contains_text("[storage.io] cannot "));
        CHECK_THAT(result.err, contains_text(folder.root()));
        CHECK_THAT(result.err,
                   contains_text(action == "EIO" ? "Input/output error" : "No space left"));
        CHECK_FALSE(folder.has("new"));
        ++failures;
      }
      // At the last call the save was over: it is there whatever comes then.
      if (result.exit_code == 0 || i + 1 == calls.size()) {
        CHECK(folder.has("new"));
      }
      there += folder.has("new") ? 1 : 0;
      folder.check_cleared();
    }
  }
  // The faults were met: most ended the save, and only late ones left the new one there.
  CHECK(failures > static_cast<int>(calls.size()));
  CHECK(there > 0);
}

TEST_CASE("whichever call of a removal fails, all listed checkpoints are complete",
          "[faults][.release]") {
  for (const std::string name : {"old", "older"}) {
    const Names calls = FaultyFolder().calls("remove", name);
    REQUIRE(calls.size() > 5);
    for (size_t i = 0; i < calls.size(); ++i) {
      for (const std::string action : {"EIO", "EROFS", "crash", "power"}) {
        INFO(action << " at call " << i + 1 << ": " << calls[i]);
        FaultyFolder folder;
        const SubprocessResult result =
            folder.run("remove",
                       name,
                       {{"TENON_FAULT_DO", action}, {"TENON_FAULT_NTH", std::to_string(i + 1)}});
        INFO(result.err);
        CHECK(folder.has(name == "old" ? "older" : "old"));
        folder.check_sound();
        if (result.exit_code == 0 || i + 1 == calls.size()) {
          CHECK_FALSE(folder.has(name));
        } else if (result.exit_code == 1) {
          CHECK_THAT(result.err, contains_text("[storage.io] cannot "));
        } else {
          CHECK(result.exit_code == 128 + 9);
        }
        folder.storage.remove(name);
        CHECK_FALSE(folder.has(name));
        folder.check_cleared();
      }
    }
  }
}

TEST_CASE("a disk that fills while a checkpoint is written costs only that checkpoint",
          "[faults]") {
  FaultyFolder folder;
  const SubprocessResult result = folder.run("save", "new", {{"TENON_FAULT_DO", "full:7000000"}});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, contains_text("[storage.io] cannot write " + folder.root()));
  CHECK_THAT(result.err, contains_text("No space left on device; free disk space there"));
  CHECK(folder.storage.list() == Names{"older", "old"});
  folder.check_sound();
  folder.check_cleared();
}

TEST_CASE("without the disk's early start a save is the same", "[faults]") {
  FaultyFolder folder;
  const SubprocessResult result =
      folder.run("save", "new", {{"TENON_FAULT_CALLS", "writeback"}, {"TENON_FAULT_DO", "EACCES"}});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(folder.has("new"));
  folder.check_sound();
}

}  // namespace tenon
