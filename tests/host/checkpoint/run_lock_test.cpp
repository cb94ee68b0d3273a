// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/run_lock.hpp"

#include "host/error/error.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string refusal(const std::string& folder) {
  try {
    (void)RunLock::take(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A process that holds the lock until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      ::close(ready[0]);
      const auto lock = RunLock::take(folder);
      (void)!::write(ready[1], "x", 1);
      ::pause();
      ::_exit(0);
    }
    ::close(ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = -1;
    }
  }
  pid_t id() const { return process_; }

 private:
  pid_t process_ = -1;
};

}  // namespace

TEST_CASE("a folder is locked by one at a time, and who holds it is told", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  {
    const auto lock = RunLock::take(folder);
    const std::string said = refusal(folder);
    CHECK_THAT(said, contains_text("[run.dir_in_use]"));
    CHECK_THAT(
        said,
        contains_text(folder + " is in use by process " + std::to_string(::getpid()) + " on "));
  }
  CHECK(std::filesystem::is_empty(folder));  // whoever leaves in order leaves nothing
  CHECK(refusal(folder).empty());
}

TEST_CASE("a lock that is handed on is held once, and released once", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  {
    std::optional<RunLock> first(RunLock::take(folder));
    const RunLock second(std::move(*first));
    first.reset();
    CHECK_FALSE(refusal(folder).empty());
  }
  CHECK(refusal(folder).empty());
}

TEST_CASE("a process that is killed leaves no lock", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  Holder holder(folder);
  CHECK_THAT(refusal(folder), contains_text("process " + std::to_string(holder.id()) + " on "));
  holder.kill();
  CHECK(std::filesystem::exists(folder + "/.lock"));
  CHECK(refusal(folder).empty());
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("who is patient takes over from a process that ends meanwhile", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  Holder holder(folder);
  std::thread killer([&] { holder.kill(); });
  CHECK(RunLock::take(folder, std::chrono::minutes(1)).lost().empty());
  killer.join();
}

TEST_CASE("a file that was removed under its holder is not what the next one locks",
          "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  std::optional<RunLock> removed(RunLock::take(folder));
  std::filesystem::remove(folder + "/.lock");
  const auto lock = RunLock::take(folder);
  removed.reset();  // and leaves the other's file alone
  CHECK(std::filesystem::exists(folder + "/.lock"));
  CHECK_FALSE(refusal(folder).empty());
}

TEST_CASE("a holder without a name, or with a wild one, is told as such", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const auto lock = RunLock::take(folder);
  std::ofstream(folder + "/.lock", std::ios::trunc).close();
  CHECK_THAT(refusal(folder), contains_text("in use by a process that has just started;"));
  std::ofstream(folder + "/.lock") << "a\x1b[31m" << std::string(1000, 'x');
  const std::string said = refusal(folder);
  CHECK_THAT(said, contains_text("in use by a?[31mxxx"));
  CHECK(said.size() < 1000);
}

TEST_CASE("a folder that cannot be locked is told", "[checkpoint]") {
  const ScratchFolder scratch;
  CHECK_THAT(refusal((scratch.path() / "nowhere").string()),
             contains_text("/nowhere/.lock: No such file or directory"));
  std::filesystem::create_directory(scratch.path() / ".lock");
  CHECK_THAT(refusal(scratch.path().string()), contains_text("[run.dir_unwritable]"));
}

TEST_CASE("a run notices that its folder or its lock is no longer its own", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = (scratch.path() / "run").string();
  std::filesystem::create_directory(folder);
  const auto lock = RunLock::take(folder);
  CHECK(lock.lost().empty());
  SECTION("the lock was removed") {
    std::filesystem::remove(folder + "/.lock");
    CHECK(lock.lost() == "its file .lock was removed");
  }
  SECTION("the folder was removed, and made again by another run") {
    std::filesystem::remove_all(folder);
    CHECK(lock.lost() == "it was removed or renamed");
    std::filesystem::create_directory(folder);
    CHECK_FALSE(lock.lost().empty());
    const Holder other(folder);
    CHECK_THAT(lock.lost(),
               contains_text("it is in use by process " + std::to_string(other.id()) + " on "));
  }
  SECTION("the folder was renamed") {
    std::filesystem::rename(folder, folder + "-2");
    CHECK(lock.lost() == "it was removed or renamed");
  }
  SECTION("another run wrote its name, on a file system without locks") {
    std::ofstream(folder + "/.lock") << "process 1 on elsewhere, since now\n";
    CHECK(lock.lost() == "it is in use by process 1 on elsewhere, since now");
  }
  SECTION("the file system gave the file another inode") {
    std::ofstream(folder + "/copy") << lock.name() << "\n";
    std::filesystem::rename(folder + "/copy", folder + "/.lock");
    CHECK(lock.lost().empty());
  }
}

TEST_CASE("a stranger who may read a leftover lock cannot keep the run out", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const std::string path = folder + "/.lock";
  std::ofstream(path) << "process 999999999 on elsewhere, since long ago\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  const OpenFile stranger(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(stranger.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(refusal(folder).empty());
}

TEST_CASE("a run of an earlier release that is still running keeps its folder", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = scratch.path().string();
  const std::string path = folder + "/.lock";
  // It locks with flock() and writes the same line.
  const std::string name = "process " + std::to_string(::getppid()) + " on here, since now";
  std::ofstream(path) << name << "\n";
  const OpenFile earlier(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(earlier.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK_THAT(refusal(folder), contains_text("in use by " + name));
}

}  // namespace tenon
