// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/base_hash.hpp"

#include "host/error/assert.hpp"

#include <array>
#include <cstdio>
#include <cstring>

namespace tenon {
namespace {

// Source   Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (OOPSLA 2014): the
//          finalizer of SplitMix64
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t base_hash_of(std::string_view name, const TensorPiece& piece, const at::Tensor& values) {
  TENON_ASSERT(values.numel() == piece.numel(), "a value for each element of the piece");
  uint64_t key = 0;
  for (const char c : name) {
    key = mixed(key ^ static_cast<unsigned char>(c));
  }
  const at::Tensor flat = values.reshape(-1).to(at::kFloat).contiguous();
  const float* const numbers = flat.const_data_ptr<float>();
  uint64_t sum = 0;
  for_each_run(piece, [&](const TensorPiece::Run& run) {
    for (int64_t i = 0; i < run.numel; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, numbers + run.in_piece + i, sizeof bits);
      sum += mixed(mixed(key + static_cast<uint64_t>(run.in_tensor + i)) ^ bits);
    }
  });
  return sum;
}

std::string base_hash_text(uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace tenon
