// SPDX-License-Identifier: Apache-2.0
#include "host/trust/ed25519.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

namespace tenon {
namespace {

// Precedes the 32 bytes of each Ed25519 key in DER: the algorithm 1.3.101.112, then a bit string.
constexpr std::array<unsigned char, 12> kDerStart = {
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

constexpr std::size_t kDerBytes = 44;
constexpr std::size_t kBase64Chars = 60;  // the last is the padding '='

// A separate context does not load the machine's openssl.cnf, which may name modules to load. Never
// freed, as in sha256.cpp.
OSSL_LIB_CTX* signature_context() {
  static OSSL_LIB_CTX* const context = OSSL_LIB_CTX_new();
  TENON_ASSERT(context != nullptr, "libcrypto makes a context");
  return context;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::optional<Ed25519Key> ed25519_key(std::string_view base64) {
  const bool is_base64 =
      base64.size() == kBase64Chars && base64.back() == '=' &&
      base64.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") == kBase64Chars - 1;
  std::array<unsigned char, kDerBytes + 1> der{};  // one more for the padding
  if (!is_base64 ||
      EVP_DecodeBlock(der.data(), bytes_of(base64), kBase64Chars) != static_cast<int>(der.size())) {
    return std::nullopt;
  }
  if (!std::equal(kDerStart.begin(), kDerStart.end(), der.begin())) {
    return std::nullopt;
  }
  Ed25519Key key;
  std::copy_n(der.begin() + kDerStart.size(), key.bytes.size(), key.bytes.begin());
  return key;
}

bool is_signed_by(const Ed25519Key& key, std::string_view message, std::string_view signature) {
  if (signature.size() != kEd25519SignatureBytes) {
    return false;
  }
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> owner(
      EVP_PKEY_new_raw_public_key_ex(
          signature_context(), "ED25519", nullptr, key.bytes.data(), key.bytes.size()),
      &EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> check(EVP_MD_CTX_new(),
                                                                      &EVP_MD_CTX_free);
  const bool is_valid =
      owner != nullptr && check != nullptr &&
      EVP_DigestVerifyInit_ex(
          check.get(), nullptr, nullptr, signature_context(), nullptr, owner.get(), nullptr) == 1 &&
      EVP_DigestVerify(
          check.get(), bytes_of(signature), signature.size(), bytes_of(message), message.size()) ==
          1;
  ERR_clear_error();  // of an invalid signature, for later calls that read the queue
  return is_valid;
}

}  // namespace tenon
