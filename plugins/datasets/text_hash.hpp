// SPDX-License-Identifier: Apache-2.0
//
// A hash of texts for ids that are saved. The values never change.
// Threads: pure functions, from any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon {

// FNV-1a: the same values on every machine.
//
// Source   Noll et al., The FNV Non-Cryptographic Hash Algorithm
inline uint64_t text_hash(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace tenon
