// SPDX-License-Identifier: Apache-2.0
#include "host/io/content_hash.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

TEST_CASE("a content hash is an XXH128 that names its algorithm", "[io]") {
  const ScratchFolder folder;
  // As `xxh128sum` prints it.
  CHECK(content_hash(folder.write("empty", "").string()) ==
        "xxh128:99aa06d3014798d86001c324468d497f");
  CHECK(content_hash(folder.write("a", "a").string()) == "xxh128:a96faf705af16834e6c632b61e964e1f");
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
}

TEST_CASE("a hash of an earlier release is told from one of this release", "[io]") {
  CHECK(is_content_hash("xxh128:99aa06d3014798d86001c324468d497f"));
  CHECK_FALSE(is_content_hash("6c62272e07bb014262b821756295c58d"));  // FNV-1a
  CHECK_FALSE(is_content_hash(""));
}
