// SPDX-License-Identifier: Apache-2.0
#include "host/io/content_hash.hpp"

#include "host/io/regular_file.hpp"
#include "host/io/sha256.hpp"

#include <filesystem>
#include <string>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

TEST_CASE("a content hash is a SHA-256 that names its algorithm", "[io]") {
  const ScratchFolder folder;
  // As `sha256sum` prints it.
  CHECK(content_hash(folder.write("empty", "").string()) ==
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string file = folder.write("a", "a").string();
  const std::string hash =
      "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
  CHECK(content_hash(file) == hash);
  const RegularFile opened = open_regular_file(file);
  std::filesystem::remove(file);
  folder.write("a", "other");
  CHECK(content_hash(opened.file) == hash);
}

TEST_CASE("a content hash covers a file of many buffers", "[io]") {
  const ScratchFolder folder;
  std::string bytes(3'000'000, 'x');
  const auto first = content_hash(folder.write("one", bytes).string());
  CHECK(first == content_hash(folder.write("two", bytes).string()));
  bytes.back() = 'y';
  CHECK(first != content_hash(folder.write("three", bytes).string()));
}

TEST_CASE("a file that cannot be read has no content hash", "[io]") {
  const ScratchFolder folder;
  CHECK_FALSE(content_hash((folder.path() / "missing").string()));
  CHECK_FALSE(content_hash(folder.path().string()));
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_FALSE(content_hash(fifo));
}

TEST_CASE("a hash of an earlier release is told from one of this release", "[io]") {
  CHECK(is_content_hash("sha256:" + sha256_text("")));
  CHECK_FALSE(is_content_hash("xxh128:99aa06d3014798d86001c324468d497f"));
  CHECK_FALSE(is_content_hash("6c62272e07bb014262b821756295c58d"));  // FNV-1a
  CHECK_FALSE(is_content_hash(""));
}
