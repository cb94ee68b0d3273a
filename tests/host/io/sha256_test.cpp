// SPDX-License-Identifier: Apache-2.0
#include "host/io/sha256.hpp"

#include <span>
#include <string>

#include "tests/support/catch.hpp"

using namespace tenon;

// FIPS 180-4's examples, as `sha256sum` prints them.
TEST_CASE("SHA-256 gives the values of its standard", "[io]") {
  CHECK(sha256_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_text(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a SHA-256 does not depend on how its bytes are split", "[io]") {
  const std::string text(1000, 'x');
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text).first(63)));
  hash.add({});
  hash.add(std::as_bytes(std::span(text).subspan(63)));
  CHECK(hash.text() == sha256_text(text));
}
