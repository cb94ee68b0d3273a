// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/content_hash.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

TEST_CASE("a content hash is FNV-1a of 128 bits", "[plugin]") {
  const ScratchFolder folder;
  // The test vectors of the algorithm's specification for "" and "a".
  CHECK(content_hash(folder.write("empty", "").string()) == "6c62272e07bb014262b821756295c58d");
  CHECK(content_hash(folder.write("a", "a").string()) == "d228cb696f1a8caf78912b704e4a8964");
}

TEST_CASE("a content hash covers a file of many buffers", "[plugin]") {
  const ScratchFolder folder;
  std::string bytes(200000, 'x');
  const auto first = content_hash(folder.write("one", bytes).string());
  CHECK(first == content_hash(folder.write("two", bytes).string()));
  bytes.back() = 'y';
  CHECK(first != content_hash(folder.write("three", bytes).string()));
}

TEST_CASE("a file that cannot be read has no content hash", "[plugin]") {
  const ScratchFolder folder;
  CHECK_FALSE(content_hash((folder.path() / "missing").string()));
  CHECK_FALSE(content_hash(folder.path().string()));
}
