// SPDX-License-Identifier: Apache-2.0
#include "host/model/state_hash.hpp"

#include <cstdio>
#include <cstring>

namespace tenon {
namespace {

// Both steps are invertible, so states that differ stay different until the next word is added. The
// shift carries differences in high bits, such as signs, to the low bits.
// Source: the finalizer of Austin Appleby's MurmurHash3.
uint64_t mixed(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0xff51afd7ed558ccdull;
  return state ^ (state >> 32);
}

}  // namespace

void StateHash::add(const void* bytes, size_t size) {
  constexpr size_t kStride = kLanes * sizeof(uint64_t);
  const auto* data = static_cast<const unsigned char*>(bytes);
  std::array<uint64_t, kLanes> words;
  size_t at = 0;
  for (; at + kStride <= size; at += kStride) {
    std::memcpy(words.data(), data + at, kStride);
    for (size_t k = 0; k < kLanes; ++k) {
      lanes_[k] = mixed(lanes_[k], words[k]);
    }
  }
  words.fill(0);
  if (at < size) {
    std::memcpy(words.data(), data + at, size - at);
  }
  for (size_t k = 0; k < kLanes; ++k) {
    lanes_[k] = mixed(lanes_[k], words[k]);
  }
  lanes_[0] = mixed(lanes_[0], size);
}

std::string StateHash::text() const {
  uint64_t state = 0;
  for (const uint64_t lane : lanes_) {
    state = mixed(state, lane);
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(state));
  return text;
}

}  // namespace tenon
