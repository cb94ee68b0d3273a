// SPDX-License-Identifier: Apache-2.0
#include "host/io/checksum.hpp"

#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a checksum is XXH3, however the bytes are cut", "[io]") {
  CHECK(xxh3_text(Checksum().value()) == "2d06800538d394c2");  // as xxhsum -H3 prints it
  const std::string text(5000, 'x');
  Checksum whole;
  whole.add(bytes_of(text));
  Checksum parts;
  parts.add(bytes_of(text.substr(0, 17)));
  parts.add(bytes_of(text.substr(17)));
  CHECK(parts.value() == whole.value());
  parts.add(bytes_of("y"));
  CHECK(parts.value() != whole.value());
}

TEST_CASE("the XXH128 of a text is that of a file with the same bytes", "[io]") {
  const ScratchFolder folder;
  CHECK(xxh128_text("") == "99aa06d3014798d86001c324468d497f");
  const std::string text(2'500'000, 'z');
  CHECK(xxh128_of_file(folder.write("z", text).string()) == xxh128_text(text));
  CHECK(xxh128_of_file((folder.path() / "missing").string()).empty());
}

TEST_CASE("checksums are written with all their digits", "[io]") {
  CHECK(xxh3_text(0x1234) == "0000000000001234");
}
