// SPDX-License-Identifier: Apache-2.0
#include "host/trust/secrets/seal.hpp"

#include "host/error/error.hpp"

#include <array>
#include <memory>
#include <new>
#include <openssl/evp.h>
#include <stdexcept>

namespace tenon {
namespace {

// A sealed value: the writer's salt, the number of the value, the encrypted value, and its tag.
constexpr size_t kSaltBytes = 32;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kLongestValue = size_t{32} << 20;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

RunKey random_salt() {
  RunKey salt{};
  fill_random(salt.data(), salt.size());
  return salt;
}

const unsigned char* octets(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string_view view(const uint8_t* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

// The key of one writer, and the name as additional data.
Cipher cipher_for(bool is_sealing,
                  const RunKey& values,
                  std::string_view salt,
                  const uint8_t* nonce,
                  std::string_view name) {
  const RunKey key = authenticator(values, salt);
  Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  int count = 0;
  if (cipher == nullptr ||
      EVP_CipherInit_ex(
          cipher.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce, is_sealing ? 1 : 0) != 1 ||
      EVP_CipherUpdate(
          cipher.get(), nullptr, &count, octets(name), static_cast<int>(name.size())) != 1) {
    throw std::bad_alloc();
  }
  return cipher;
}

}  // namespace

void fail_unauthenticated(std::string_view key) {
  throw Error("distributed.unauthenticated",
              "the value of key \"" + std::string(key) +
                  "\" in the store of the ranks was not written with the secret of this run; "
                  "another user or program has changed it, or the ranks have different secrets "
                  "(docs/security.md)");
}

Seal::Seal(const RunKey& names, const RunKey& values)
    : names_(names), values_(values), salt_(random_salt()) {}

std::string Seal::name_of(std::string_view key) const {
  return "tenon/" + hex_text(authenticator(names_, key));
}

Seal::Bytes Seal::seal(std::string_view key, const Bytes& value) {
  if (value.size() > kLongestValue) {
    throw std::length_error("a value for the store of the ranks has more than 32 MiB");
  }
  std::array<uint8_t, kNonceBytes> nonce{};
  const uint64_t number = num_sealed_++;
  for (size_t i = 0; i < sizeof(number); ++i) {
    nonce[i] = static_cast<uint8_t>(number >> (8 * i));
  }
  const Cipher cipher =
      cipher_for(true, values_, view(salt_.data(), salt_.size()), nonce.data(), key);
  Bytes sealed(salt_.begin(), salt_.end());
  sealed.insert(sealed.end(), nonce.begin(), nonce.end());
  const size_t head = sealed.size();
  sealed.resize(head + value.size() + kTagBytes);
  int count = 0;
  int rest = 0;
  if (EVP_CipherUpdate(cipher.get(),
                       sealed.data() + head,
                       &count,
                       value.data(),
                       static_cast<int>(value.size())) != 1 ||
      EVP_CipherFinal_ex(cipher.get(), sealed.data() + head + count, &rest) != 1 ||
      EVP_CIPHER_CTX_ctrl(
          cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, sealed.data() + head + value.size()) !=
          1) {
    throw std::bad_alloc();
  }
  return sealed;
}

Seal::Bytes Seal::unseal(std::string_view key, const Bytes& sealed) const {
  constexpr size_t kHead = kSaltBytes + kNonceBytes;
  if (sealed.size() < kHead + kTagBytes || sealed.size() > kHead + kLongestValue + kTagBytes) {
    fail_unauthenticated(key);
  }
  const Cipher cipher =
      cipher_for(false, values_, view(sealed.data(), kSaltBytes), sealed.data() + kSaltBytes, key);
  Bytes value(sealed.size() - kHead - kTagBytes);
  Bytes tag(sealed.end() - kTagBytes, sealed.end());
  std::array<uint8_t, 16> none{};  // where the value is empty
  int count = 0;
  int rest = 0;
  if (EVP_CipherUpdate(cipher.get(),
                       value.empty() ? none.data() : value.data(),
                       &count,
                       sealed.data() + kHead,
                       static_cast<int>(value.size())) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_CipherFinal_ex(cipher.get(), none.data(), &rest) != 1) {
    fail_unauthenticated(key);
  }
  return value;
}

}  // namespace tenon
