// SPDX-License-Identifier: Apache-2.0
//
// Weights, tokens and gradients by formula, as in decoders_golden.py, so that golden data need not
// store them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Numbers in [-0.5, 0.5), in fp64: splitmix64 of a counter that starts at a hash of the seed
// (FNV-1a).
inline at::Tensor filled(const std::string& seed, const std::vector<int64_t>& shape) {
  uint64_t state = 0xCBF29CE484222325ULL;
  for (const char c : seed) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  at::Tensor out = at::empty(shape, at::kDouble);
  auto* const data = out.mutable_data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    state += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    data[i] = static_cast<double>(z >> 40) / 16777216.0 - 0.5;
  }
  return out;
}

// The value of a parameter, in fp32. Norms are near 1, or near 0 if weights are added to 1.
inline at::Tensor filled_weight(const std::string& name,
                                const std::vector<int64_t>& shape,
                                bool is_gemma) {
  const std::string end = ".weight";
  const bool is_norm = shape.size() == 1 && name.size() > end.size() &&
                       name.compare(name.size() - end.size(), end.size(), end) == 0;
  const double offset = is_norm && !is_gemma ? 1.0 : 0.0;
  return (filled(name, shape) * (shape.size() > 1 ? 0.9 : 0.4) + offset).to(at::kFloat);
}

inline at::Tensor filled_tokens(int64_t samples, int64_t positions, int64_t vocabulary) {
  return (at::arange(samples * positions, at::kLong) * 7 + 3)
      .remainder(vocabulary)
      .view({samples, positions});
}

}  // namespace tenon
