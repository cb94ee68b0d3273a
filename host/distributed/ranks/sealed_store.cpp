// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/sealed_store.hpp"

#include "host/text/formatted.hpp"

#include <charconv>
#include <optional>
#include <utility>

namespace tenon {
namespace {

// How often a value may change while this rank changes it.
constexpr int kMostAttempts = 10'000;

}  // namespace

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store,
                         const RunKey& names,
                         const RunKey& values)
    : store_(std::move(store)), names_(names), values_(values), seal_(names, values) {}

std::vector<std::string> SealedStore::sealed_names(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    names.push_back(seal_.name_of(key));
  }
  return names;
}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), names_, values_);
}

void SealedStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  store_->set(seal_.name_of(key), seal_.seal(key, value));
}

std::vector<uint8_t> SealedStore::get(const std::string& key) {
  return seal_.unseal(key, store_->get(seal_.name_of(key)));
}

// Replaces the value of `key` by what `change` makes of it, in one piece: if another rank was
// faster, again. `change` gets none if the key does not exist, and returns none to leave it.
// Returns the value afterwards; empty if the key does not exist.
template <class Change>
SealedStore::Bytes SealedStore::change(const std::string& key, Change&& change) {
  const std::string name = seal_.name_of(key);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Bytes before;  // sealed; empty: the key does not exist
    std::optional<Bytes> value;
    if (store_->check({name})) {
      before = store_->get(name);
      value = seal_.unseal(key, before);
    }
    const std::optional<Bytes> changed = change(value);
    if (!changed.has_value()) {
      return value.value_or(Bytes());
    }
    const Bytes after = seal_.seal(key, *changed);
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
  return store_->deleteKey(seal_.name_of(key));
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
