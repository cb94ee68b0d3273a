// SPDX-License-Identifier: Apache-2.0
#include "host/io/regular_file.hpp"

#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace {

std::string problem_of(const std::filesystem::path& path) {
  const RegularFile opened = open_regular_file(path.string());
  CHECK(opened.file.is_open() == opened.problem.empty());
  const FileText read = read_file_text(path.string(), 1000);
  CHECK(read.problem == opened.problem);
  CHECK(read.is_missing == opened.is_missing);
  return opened.problem;
}

}  // namespace

TEST_CASE("a FIFO, a folder, a device and a socket are refused at once, by their kind", "[io]") {
  const ScratchFolder scratch;
  const std::string fifo = (scratch.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(problem_of(fifo) == "it is a FIFO, not a regular file");
  std::filesystem::create_symlink("fifo", scratch.path() / "link");
  CHECK(problem_of(scratch.path() / "link") == "it is a FIFO, not a regular file");
  CHECK(problem_of(scratch.path()) == "it is a folder, not a regular file");
  CHECK(problem_of("/dev/zero") == "it is a device, not a regular file");
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket = (scratch.path() / "socket").string();
  REQUIRE(socket.size() < sizeof(address.sun_path));
  socket.copy(address.sun_path, socket.size());
  REQUIRE(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  CHECK(problem_of(socket) == "it is a socket, not a regular file");
  ::close(server);
}

TEST_CASE("a file that does not exist is missing, and the system's reason is given", "[io]") {
  const ScratchFolder scratch;
  CHECK(problem_of(scratch.path() / "none") == "No such file or directory");
  CHECK(open_regular_file((scratch.path() / "none").string()).is_missing);
  const auto file = scratch.write("file", "text");
  CHECK(problem_of(file / "below") == "Not a directory");
  CHECK_FALSE(open_regular_file((file / "below").string()).is_missing);
}

TEST_CASE("the text of a file is read up to a limit", "[io]") {
  const ScratchFolder scratch;
  const std::string text(200'000, 'x');
  const std::string file = scratch.write("file", text).string();
  CHECK(read_file_text(file, text.size()).text == text);
  CHECK(read_file_text(file, text.size() - 1).is_too_large);
  CHECK(read_file_text(file, text.size() - 1).text.empty());
  CHECK(read_file_text(scratch.write("empty", "").string(), 0).text.empty());
  CHECK_FALSE(read_file_text(scratch.write("empty", "").string(), 0).is_too_large);
  // A sparse file of 1 TiB takes no memory.
  std::filesystem::resize_file(file, uint64_t{1} << 40);
  CHECK(read_file_text(file, 1000).is_too_large);
  // The size of this file is 0.
  CHECK_FALSE(read_file_text("/proc/self/stat", 100'000).text.empty());
  CHECK(read_file_text("/proc/self/stat", 3).is_too_large);
}

TEST_CASE("reading at an offset ends with the file", "[io]") {
  const ScratchFolder scratch;
  const RegularFile opened = open_regular_file(scratch.write("file", "0123456789").string());
  REQUIRE(opened.size == 10);
  std::string out(6, '-');
  size_t num_read = 0;
  CHECK(read_at(opened.file, 7, std::as_writable_bytes(std::span(out)), num_read).empty());
  CHECK(num_read == 3);
  CHECK(out == "789---");
}
