// SPDX-License-Identifier: Apache-2.0
#include "host/io/sampled_hash.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A sparse file, so that large ones cost nothing.
std::string file_of(const ScratchFolder& folder, const std::string& name, uintmax_t bytes) {
  const fs::path path = folder.write(name, "x");
  fs::resize_file(path, bytes);
  return path.string();
}

void set_byte(const std::string& path, std::streamoff at, char value) {
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at);
  stream.put(value);
}

std::string hash_of(const std::string& path) {
  return sampled_hashes({path}).front().hash;
}

}  // namespace

TEST_CASE("every byte of a small file counts, and its time does not", "[io]") {
  const ScratchFolder folder;
  const std::string path = file_of(folder, "a", 5000000);
  const std::string before = hash_of(path);
  CHECK(before.starts_with("whole:"));
  CHECK(before.size() == 6 + 16);
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(hash_of(path) == before);
  for (const std::streamoff at : {1, 2500000, 4999999}) {
    set_byte(path, at, 'y');
    CHECK(hash_of(path) != before);
    set_byte(path, at, '\0');
    CHECK(hash_of(path) == before);
  }
  const std::string empty = file_of(folder, "empty", 0);
  CHECK(sampled_hashes({empty}).front().bytes == 0);
  CHECK(hash_of(empty).starts_with("whole:"));
}

TEST_CASE("the hash of a large file covers its head, its tail and 64 blocks", "[io]") {
  const ScratchFolder folder;
  const auto size = static_cast<std::streamoff>(kWholeBytes + 12345);
  const std::string path = file_of(folder, "large", static_cast<uintmax_t>(size));
  const std::string before = hash_of(path);
  CHECK(before.starts_with("blocks-64:"));
  int num_found = 0;  // of 64 parts of the file, each overwritten as a whole
  const std::streamoff part = size / 64;
  const std::string ones(static_cast<size_t>(part), '1');
  const std::string zeros(static_cast<size_t>(part), '\0');
  for (int i = 1; i < 63; i += 6) {
    const auto write = [&](const std::string& bytes) {
      std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(part * i);
      stream << bytes;
    };
    write(ones);
    num_found += hash_of(path) != before ? 1 : 0;
    write(zeros);
  }
  CHECK(num_found == 11);
  CHECK(hash_of(path) == before);
  for (const std::streamoff at : {std::streamoff{1}, size - 1}) {
    set_byte(path, at, 'y');
    CHECK(hash_of(path) != before);
    set_byte(path, at, '\0');
  }
  CHECK(hash_of(path) == before);
}

TEST_CASE("files of a set are hashed in order, and those that cannot be read have no hash",
          "[io]") {
  const ScratchFolder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {
    paths.push_back(folder.write(std::to_string(i), std::to_string(i * i)).string());
  }
  paths[7] = (folder.path() / "missing").string();
  paths[8] = folder.path().string();
  const std::vector<SampledHash> hashes = sampled_hashes(paths);
  REQUIRE(hashes.size() == 40);
  for (size_t i = 0; i < hashes.size(); ++i) {
    CAPTURE(i);
    const bool is_read = i != 7 && i != 8;
    CHECK(hashes[i].bytes == (is_read ? static_cast<int64_t>(std::to_string(i * i).size()) : -1));
    CHECK(hashes[i].hash == (is_read ? hash_of(paths[i]) : ""));
  }
  CHECK(file_sizes(paths)[9] == 2);
  CHECK(file_sizes(paths)[8] == -1);
}

}  // namespace tenon
