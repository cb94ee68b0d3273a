// SPDX-License-Identifier: Apache-2.0
//
// Maps the bytes of tokens to ids: an open-addressed table over one buffer. It is filled once and
// then only read, so that many threads may look up at once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15u;
  uint64_t hash = bytes.size() * kFactor;
  const char* p = bytes.data();
  size_t left = bytes.size();
  while (left >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
    p += 8;
    left -= 8;
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  hash = (hash ^ word) * kFactor;
  return hash ^ hash >> 29;
}

class TokenMap {
 public:
  static constexpr int32_t kNone = -1;

  // Adds a token, or gives a token another id.
  void set(std::string_view token, int32_t id) {
    if ((entries_.size() + 1) * 2 > slots_.size()) {
      grow();
    }
    uint32_t& slot = slots_[find(token)];
    if (slot != 0) {
      entries_[slot - 1].id = id;
      return;
    }
    entries_.push_back({bytes_.size(), static_cast<uint32_t>(token.size()), id});
    bytes_.append(token);
    slot = static_cast<uint32_t>(entries_.size());
  }

  // The id of a token; kNone if there is none.
  int32_t get(std::string_view token) const {
    if (slots_.empty()) {
      return kNone;
    }
    const uint32_t slot = slots_[find(token)];
    return slot == 0 ? kNone : entries_[slot - 1].id;
  }

  size_t size() const { return entries_.size(); }
  // The tokens in the order in which they were added.
  std::string_view token(size_t index) const {
    return std::string_view(bytes_).substr(entries_[index].begin, entries_[index].size);
  }
  int32_t id(size_t index) const { return entries_[index].id; }

 private:
  struct Entry {
    uint64_t begin;
    uint32_t size;
    int32_t id;
  };

  size_t find(std::string_view token) const {
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash_bytes(token) & mask;; at = (at + 1) & mask) {
      const uint32_t slot = slots_[at];
      if (slot == 0) {
        return at;
      }
      const Entry& entry = entries_[slot - 1];
      if (entry.size == token.size() &&
          std::memcmp(bytes_.data() + entry.begin, token.data(), token.size()) == 0) {
        return at;
      }
    }
  }

  void grow() {
    slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, 0);
    for (size_t i = 0; i < entries_.size(); ++i) {
      slots_[find(token(i))] = static_cast<uint32_t>(i + 1);
    }
  }

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // index + 1 of an entry; 0: free
};

}  // namespace tenon
