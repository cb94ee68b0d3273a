// SPDX-License-Identifier: Apache-2.0
#include "host/io/sha256.hpp"

#include "host/error/assert.hpp"

#include <array>
#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace tenon {
namespace {

// Never freed, so that other threads may hash while the process exits. A separate context does not
// load the machine's openssl.cnf, which may name modules to load.
const EVP_MD* sha256_of_openssl() {
  static const EVP_MD* const algorithm = [] {
    OSSL_LIB_CTX* const context = OSSL_LIB_CTX_new();
    return context != nullptr ? EVP_MD_fetch(context, "SHA256", nullptr) : nullptr;
  }();
  TENON_ASSERT(algorithm != nullptr, "libcrypto has SHA-256");
  return algorithm;
}

}  // namespace

struct Sha256::State {
  State() : md(EVP_MD_CTX_new()) {
    TENON_ASSERT(md != nullptr && EVP_DigestInit_ex2(md, sha256_of_openssl(), nullptr) == 1,
                 "SHA-256 can be started");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(md); }

  EVP_MD_CTX* md;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  const int is_added = EVP_DigestUpdate(state_->md, bytes.data(), bytes.size());
  TENON_ASSERT(is_added == 1, "bytes can be hashed");
}

std::string Sha256::text() {
  std::array<unsigned char, 32> digest{};
  const int is_final = EVP_DigestFinal_ex(state_->md, digest.data(), nullptr);
  TENON_ASSERT(is_final == 1, "a hash can be finished");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const unsigned char byte : digest) {
    result += kDigits[byte >> 4];
    result += kDigits[byte & 15];
  }
  return result;
}

std::string sha256_text(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.text();
}

}  // namespace tenon
