// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/sealed_store.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <openssl/evp.h>
#include <optional>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

// A sealed value: the writer's salt, the number of the value, the encrypted value, and its tag.
constexpr size_t kSaltBytes = 32;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kLongestValue = size_t{32} << 20;
// How often a value may change while this rank changes it.
constexpr int kMostAttempts = 10'000;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

[[noreturn]] void fail_unauthenticated(const std::string& key) {
  throw Error("distributed.unauthenticated",
              "the value of key \"" + key +
                  "\" in the store of the ranks was not written with the secret of this run; "
                  "another user or program has changed it, or the ranks have different secrets "
                  "(docs/security.md)");
}

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

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store,
                         const RunKey& names,
                         const RunKey& values)
    : store_(std::move(store)), names_(names), values_(values), salt_(random_salt()) {}

std::string SealedStore::sealed_name(const std::string& key) const {
  return "tenon/" + hex_text(authenticator(names_, key));
}

std::vector<std::string> SealedStore::sealed_names(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    names.push_back(sealed_name(key));
  }
  return names;
}

SealedStore::Bytes SealedStore::seal(const std::string& key, const Bytes& value) {
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

SealedStore::Bytes SealedStore::unseal(const std::string& key, const Bytes& sealed) const {
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

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), names_, values_);
}

void SealedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(sealed_name(key), seal(key, value));
}

std::vector<uint8_t> SealedStore::get(const std::string& key) {
  return unseal(key, store_->get(sealed_name(key)));
}

// Replaces the value of `key` by what `change` makes of it, in one piece: if another rank was
// faster, again. `change` gets none if the key does not exist, and returns none to leave it.
// Returns the value afterwards; empty if the key does not exist.
template <class Change>
SealedStore::Bytes SealedStore::change(const std::string& key, Change&& change) {
  const std::string name = sealed_name(key);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Bytes before;  // sealed; empty: the key does not exist
    std::optional<Bytes> value;
    if (store_->check({name})) {
      before = store_->get(name);
      value = unseal(key, before);
    }
    const std::optional<Bytes> changed = change(value);
    if (!changed.has_value()) {
      return value.value_or(Bytes());
    }
    const Bytes after = seal(key, *changed);
    if (store_->compareSet(name, before, after) == after) {
      return *changed;
    }
  }
  fail_unauthenticated(key);
}

std::vector<uint8_t> SealedStore::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  bool exists = true;
  Bytes after = change(key, [&](const std::optional<Bytes>& value) -> std::optional<Bytes> {
    exists = value.has_value();
    const bool is_as_expected = exists ? *value == expected : expected.empty();
    return is_as_expected ? std::optional(desired) : std::nullopt;
  });
  return !exists && !expected.empty() ? expected : after;  // as c10d's stores
}

int64_t SealedStore::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  change(key, [&](const std::optional<Bytes>& value) -> std::optional<Bytes> {
    sum = 0;
    if (value.has_value()) {
      const auto* const text = reinterpret_cast<const char*>(value->data());
      std::from_chars(text, text + value->size(), sum);
    }
    sum += amount;
    const std::string text = formatted("{}", sum);
    return amount == 0 && value.has_value() ? std::nullopt
                                            : std::optional(Bytes(text.begin(), text.end()));
  });
  return sum;
}

bool SealedStore::deleteKey(const std::string& key) {
  return store_->deleteKey(sealed_name(key));
}

bool SealedStore::check(const std::vector<std::string>& keys) {
  return store_->check(sealed_names(keys));
}

int64_t SealedStore::getNumKeys() {
  return store_->getNumKeys();
}

void SealedStore::wait(const std::vector<std::string>& keys) {
  store_->wait(sealed_names(keys));
}

void SealedStore::wait(const std::vector<std::string>& keys,
                       const std::chrono::milliseconds& timeout) {
  store_->wait(sealed_names(keys), timeout);
}

const std::chrono::milliseconds& SealedStore::getTimeout() const noexcept {
  return store_->getTimeout();
}

void SealedStore::setTimeout(const std::chrono::milliseconds& timeout) {
  store_->setTimeout(timeout);
}

}  // namespace tenon
