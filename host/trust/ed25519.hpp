// SPDX-License-Identifier: Apache-2.0
//
// Verifies Ed25519 signatures. Only verifies: keys and signatures are made with the program
// openssl.
// Source: RFC 8032, and RFC 8410 for the form of public keys.
// Threads: any.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace tenon {

struct Ed25519Key {
  std::array<unsigned char, 32> bytes = {};

  bool operator==(const Ed25519Key&) const = default;
};

// Bytes of a signature.
inline constexpr std::size_t kEd25519SignatureBytes = 64;

// Parses a public key: the base64 line of the PEM file that `openssl pkey -pubout` writes. Returns
// null for any other text, also for a public key of another algorithm.
std::optional<Ed25519Key> ed25519_key(std::string_view base64);

// True if `signature` is the signature of `message` by the owner of `key`.
bool is_signed_by(const Ed25519Key& key, std::string_view message, std::string_view signature);

}  // namespace tenon
