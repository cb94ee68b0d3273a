// SPDX-License-Identifier: Apache-2.0
#include "host/trust/ed25519.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

Ed25519Key raw_key(const std::string& hex) {
  Ed25519Key key;
  const std::string bytes = from_hex(hex);
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

// As `openssl pkey -pubout` wrote it, and its last 32 bytes.
constexpr char kBase64[] = "MCowBQYDK2VwAyEAAwxdCI+dTc79/MtnikUHic5E35bgINK/qKjp8OvEgz8=";
constexpr char kHex[] = "030c5d088f9d4dcefdfccb678a450789ce44df96e020d2bfa8a8e9f0ebc4833f";

}  // namespace

// RFC 8032, section 7.1, tests 1 and 2.
TEST_CASE("Ed25519 accepts the signatures of its standard", "[io]") {
  CHECK(is_signed_by(
      raw_key("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
      "",
      from_hex("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
               "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b")));
  const Ed25519Key key =
      raw_key("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  std::string signature = from_hex(
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
      "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  CHECK(is_signed_by(key, "\x72", signature));

  CHECK_FALSE(is_signed_by(key, "\x73", signature));
  CHECK_FALSE(is_signed_by(key, "", signature));
  CHECK_FALSE(is_signed_by(key, "\x72", signature.substr(0, 63)));
  CHECK_FALSE(is_signed_by(key, "\x72", signature + "x"));
  CHECK_FALSE(is_signed_by(key, "\x72", ""));
  CHECK_FALSE(is_signed_by(raw_key(std::string(64, '0')), "\x72", signature));
  for (const std::size_t byte :
       {std::size_t{0}, std::size_t{31}, std::size_t{32}, std::size_t{63}}) {
    std::string flipped = signature;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 1);
    CHECK_FALSE(is_signed_by(key, "\x72", flipped));
  }
}

TEST_CASE("a public key is the base64 line of its PEM file, and nothing else", "[io]") {
  const std::string good = kBase64;
  CHECK(ed25519_key(good) == raw_key(kHex));
  for (const std::string& bad : {std::string(),
                                 good.substr(0, 59),
                                 good + "=",
                                 " " + good.substr(1),
                                 std::string("-----BEGIN PUBLIC KEY-----"),
                                 std::string(60, '='),
                                 std::string(59, 'A') + "=",
                                 // X25519, whose keys have the same length
                                 "MCowBQYDK2VuAyEA" + good.substr(16),
                                 good.substr(0, 58) + "=="}) {
    INFO(bad);
    CHECK_FALSE(ed25519_key(bad));
  }
}
