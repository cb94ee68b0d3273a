// SPDX-License-Identifier: Apache-2.0
#include "host/io/file_lock.hpp"

#include "host/error/error.hpp"
#include "host/io/owned_path.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & ALLPERMS;
}

// Runs `body` as another user. Returns its exit status; -1 if this user may not become another one.
int as_stranger(const std::function<int()>& body) {
  if (::geteuid() != 0) {
    return -1;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kStranger = 54321;
    if (::setgid(kStranger) != 0 || ::setuid(kStranger) != 0) {
      ::_exit(100);
    }
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a file is locked by one at a time, also within a process", "[io]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "x.lock").string();
  FileLock second(path);
  {
    FileLock first(path);
    CHECK(first.try_lock() == FileLock::State::kHeld);
    CHECK(second.try_lock() == FileLock::State::kBusy);
    CHECK(first.is_at_path());
  }
  CHECK(second.try_lock() == FileLock::State::kHeld);
}

TEST_CASE("whoever may only read a folder cannot lock a file in it", "[io]") {
  const ScratchFolder scratch;
  fs::permissions(scratch.path(), fs::perms(0755));
  const std::string path = (scratch.path() / "x.lock").string();
  std::ofstream(path) << "of an earlier release";
  fs::permissions(path, fs::perms(0644));
  FileLock lock(path);
  CHECK(mode_of(path) == 0600);
  const int opened =
      as_stranger([&path] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0; });
  if (opened < 0) {
    TENON_SKIP("needs root to become another user");
  }
  CHECK(opened == 0);
  CHECK(lock.try_lock() == FileLock::State::kHeld);
}

// Their write access to the folder lets them replace the file anyway.
TEST_CASE("those who may change a folder may lock a file in it, except in a place such as /tmp",
          "[io]") {
  const ScratchFolder scratch;
  const auto mode_in = [&](unsigned folder) {
    fs::permissions(scratch.path(), fs::perms(folder));
    const std::string path = (scratch.path() / ("x" + std::to_string(folder))).string();
    const FileLock lock(path);
    return mode_of(path);
  };
  CHECK(mode_in(0755) == 0600);
  CHECK(mode_in(0775) == 0660);
  CHECK(mode_in(0777) == 0666);
  CHECK(mode_in(01777) == 0600);
}

TEST_CASE("a stranger's flock on a file of an earlier release delays nothing", "[io]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "x.lock").string();
  std::ofstream(path) << "";
  fs::permissions(path, fs::perms(0644));
  const OpenFile stranger(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(stranger.get(), LOCK_EX | LOCK_NB) == 0);
  FileLock lock(path);
  CHECK(lock.try_lock() == FileLock::State::kHeld);
}

TEST_CASE("what is no file of its own is not locked, and nothing waits", "[io]") {
  const ScratchFolder scratch;
  const std::string fifo = (scratch.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THAT(refusal_of([&] { FileLock lock(fifo); }),
             contains_text("it is a FIFO, not a regular file"));
  const std::string link = (scratch.path() / "link").string();
  fs::create_symlink("elsewhere", link);
  CHECK_THAT(refusal_of([&] { FileLock lock(link); }), contains_text("cannot lock " + link));
  CHECK_FALSE(fs::exists(scratch.path() / "elsewhere"));
  CHECK_THAT(refusal_of([&] { FileLock lock((scratch.path() / "none/x").string()); }),
             contains_text("No such file or directory"));
}

TEST_CASE("a folder that another user has prepared is refused", "[io]") {
  if (::geteuid() != 0) {
    TENON_SKIP("needs root to make folders of another user");
  }
  constexpr uid_t kStranger = 54321;
  const ScratchFolder scratch;
  const auto refusal = [&](const fs::path& folder) {
    return refusal_of([&] { refuse_prepared_folder(folder.string()); });
  };
  const fs::path shared = scratch.path() / "tmp";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms(01777));
  const fs::path theirs = shared / "run";
  fs::create_directory(theirs);
  CHECK(refusal(theirs).empty());  // ours
  REQUIRE(::chown(theirs.c_str(), kStranger, kStranger) == 0);
  CHECK_THAT(refusal(theirs), contains_text("is a folder of another user (uid 54321)"));
  CHECK_THAT(refusal(theirs.string() + "/"), contains_text("uid 54321"));

  // A folder of another user that was handed to root, such as a volume of a container.
  const fs::path volume = scratch.path() / "volume";
  fs::create_directory(volume);
  REQUIRE(::chown(volume.c_str(), kStranger, kStranger) == 0);
  CHECK(refusal(volume).empty());
  std::ofstream(scratch.path() / "secret") << "of root";
  fs::create_symlink(scratch.path() / "secret", volume / "log.txt");
  CHECK(refusal(volume).empty());  // a link of root
  REQUIRE(::lchown((volume / "log.txt").c_str(), kStranger, kStranger) == 0);
  CHECK_THAT(refusal(volume), contains_text("log.txt is a link of another user (uid 54321)"));
  fs::remove(volume / "log.txt");
  fs::create_hard_link(scratch.path() / "secret", volume / "metrics.jsonl");
  CHECK_THAT(refusal(volume), contains_text("metrics.jsonl is a second name of a file"));
}

}  // namespace tenon
