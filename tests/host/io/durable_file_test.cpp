// SPDX-License-Identifier: Apache-2.0
#include "host/io/durable_file.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace {

std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Call>
std::string id_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.id();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a durable file has what was appended to it", "[io]") {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "a").string();
  DurableFile file = DurableFile::create(path);
  const std::string text = "one, two";
  file.write(std::as_bytes(std::span(text.data(), 3)));
  file.write(std::as_bytes(std::span(text.data() + 3, 5)));
  file.sync();
  file.close();
  CHECK_FALSE(file.is_open());
  CHECK(text_in(path) == text);
  CHECK(id_of([&] { DurableFile::create(path); }) == "storage.exists");
  CHECK(id_of([&] { DurableFile::create((folder.path() / "none/a").string()); }) == "storage.io");
}

TEST_CASE("a file is replaced as a whole, and leaves no temporary file", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.write("a", "before").string();
  replace_file(path, "after");
  CHECK(text_in(path) == "after");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a symbolic link in place of the temporary file is removed, not followed", "[io]") {
  const ScratchFolder folder;
  const std::string victim = folder.write("victim", "precious").string();
  const std::string path = (folder.path() / "a").string();
  std::filesystem::create_symlink(victim, path + ".tmp");
  replace_file(path, "new");
  CHECK(text_in(path) == "new");
  CHECK(text_in(victim) == "precious");
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path + ".tmp")));
}

TEST_CASE("a file that cannot be replaced stays, without a temporary file beside it", "[io]") {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "a").string();
  std::filesystem::create_directories(path + "/below");  // no file can take its name
  CHECK(id_of([&] { replace_file(path, "new"); }) == "storage.io");
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  CHECK(id_of([&] { replace_file(path, "new", ".part7"); }) == "storage.io");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a published file has its new name alone, and a link is not published", "[io]") {
  const ScratchFolder folder;
  const std::string from = folder.write("a.partial", "rows").string();
  const std::string to = (folder.path() / "a").string();
  publish_file(from, to);
  CHECK(text_in(to) == "rows");
  CHECK_FALSE(std::filesystem::exists(from));
  std::filesystem::create_symlink(to, from);
  CHECK(id_of([&] { publish_file(from, to); }) == "storage.io");
  CHECK(id_of([&] { publish_file((folder.path() / "none").string(), to); }) == "storage.io");
}

TEST_CASE("folders that are missing are made, and paths renamed", "[io]") {
  const ScratchFolder folder;
  const std::string deep = (folder.path() / "a/b/c").string();
  CHECK(make_folders(deep));
  CHECK_FALSE(make_folders(deep));  // it exists
  CHECK_NOTHROW(sync_name(deep));
  CHECK_NOTHROW(sync_name(deep + "/"));
  CHECK(std::filesystem::is_directory(deep));
  rename_path(deep, (folder.path() / "d").string());
  CHECK(std::filesystem::is_directory(folder.path() / "d"));
  CHECK(id_of([&] { rename_path(deep, (folder.path() / "e").string()); }) == "storage.io");
  CHECK(id_of([&] { sync_folder(deep); }) == "storage.io");
}

// A loop without a bound would try forever: "." exists in a folder that was removed.
TEST_CASE("in a folder that was removed no folder is made, and the error has the path", "[io]") {
  const ScratchFolder scratch;
  const std::filesystem::path gone = scratch.path() / "gone";
  std::filesystem::create_directory(gone);
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said = "no error";
    try {
      if (::chdir(gone.c_str()) == 0 && ::rmdir(gone.c_str()) == 0) {
        make_folders("runs/a/checkpoints");
      }
    } catch (const Error& error) {
      said = error.what();
    }
    (void)!::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said(500, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), said.size()))));
  ::close(ends[0]);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK_THAT(said, contains_text("[storage.io] cannot create the folder runs"));
}

TEST_CASE("the advice of an error fits its reason", "[io]") {
  CHECK(disk_advice(EIO) == "check the system log for disk faults");
  CHECK(disk_advice(ENOSPC) == "free disk space there");
}
