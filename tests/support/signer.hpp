// SPDX-License-Identifier: Apache-2.0
//
// An Ed25519 key of a test's own, which signs as `openssl pkeyutl -sign -rawin` does. Link
// tenon::crypto.
#pragma once

#include <array>
#include <memory>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Signer {
 public:
  Signer() : key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free) {
    if (key_ == nullptr) {
      throw std::runtime_error("no key could be made");
    }
  }

  // The public key in base64, as in a trust file.
  std::string public_key() const {
    unsigned char* der = nullptr;
    const int size = i2d_PUBKEY(key_.get(), &der);
    std::array<unsigned char, 128> text{};
    EVP_EncodeBlock(text.data(), der, size);
    OPENSSL_free(der);
    return reinterpret_cast<const char*>(text.data());
  }

  // The 64 bytes of a signature.
  std::string sign(std::string_view message) const {
    std::string signature(64, '\0');
    std::size_t size = signature.size();
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    const bool is_signed =
        EVP_DigestSignInit(context, nullptr, nullptr, nullptr, key_.get()) == 1 &&
        EVP_DigestSign(context,
                       reinterpret_cast<unsigned char*>(signature.data()),
                       &size,
                       reinterpret_cast<const unsigned char*>(message.data()),
                       message.size()) == 1;
    EVP_MD_CTX_free(context);
    if (!is_signed) {
      throw std::runtime_error("a message could not be signed");
    }
    return signature;
  }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

}  // namespace tenon
