// SPDX-License-Identifier: Apache-2.0
//
// Updates of AdamW with 8-bit state, block by block, without ATen. A block of state is one scale and
// a code per element; the value of an element is scale * map[code]. The map is dynamic: its values
// are linear in each decade from 1e-6 to 1, with twice as many in each next decade.
//
// Signed codes are 127 + f and 127 - f, unsigned ones f - 1, for a magnitude f. Magnitudes of one
// octave belong to one decade: with n = floor(log2(f)), the value is
// 10^(n - last) (0.9 / 2^n (f + 1/2) - 0.8), where `last` is 6, or 7 without signs. The smallest
// magnitude stands for 0 and the largest for 1.
//
// Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022), sections 2.1
// and 2.2, in the form of torchao's AdamW8bit.
#pragma once

#include <cstdint>

namespace tenon {

// The map as lookup tables. Reading a code takes the entry 1 + floor(log2(f)), and 0 for f = 0.
// Writing a value takes the number of `starts` that it reaches.
struct DynamicMap {
  float scale[16] = {};  // value of a magnitude f: f * scale + offset
  float offset[16] = {};
  float starts[8] = {};    // smallest values rounded to the first magnitude, to each next octave, to 1
  float inverse[16] = {};  // magnitude of a value x: x * inverse + shift, rounded down,
  float shift[16] = {};
  float most[16] = {};  // and at most this
};

enum class Codes { kSigned, kUnsigned };
DynamicMap dynamic_map(Codes codes);

// Returns the value of a code, to the precision of a double.
double dynamic_value(Codes codes, int code);

// Smallest scale of a block.
inline constexpr float kSmallestScale = 1e-12F;
// Largest block.
inline constexpr int64_t kMostInBlock = 4096;

// One piece of n elements, in blocks of `block` elements; the last one may be shorter. Elements are
// fp32, or bf16 if `is_narrow` is set.
struct Adam8Piece {
  void* parameter = nullptr;
  const void* grad = nullptr;
  bool is_narrow = false;
  uint8_t* mean_codes = nullptr;  // signed
  float* mean_scales = nullptr;
  uint8_t* square_codes = nullptr;  // unsigned
  float* square_scales = nullptr;
  int64_t n = 0;
  int64_t block = 0;
};

// parameter = keep * parameter - rate * mean / (sqrt(square) * root + eps), with the new means
// before they are rounded.
struct Adam8Numbers {
  float mean_share = 0;    // 1 - beta1: weight of the gradient in the new mean
  float square_share = 0;  // 1 - beta2
  float keep = 1;          // 1 - lr * weight_decay
  float rate = 0;          // lr / (1 - beta1^step)
  float root = 1;          // 1 / sqrt(1 - beta2^step)
  float eps = 0;
};

// Updates blocks [first, last) of a piece.
void adamw_8bit_blocks(const Adam8Piece& piece,
                       const Adam8Numbers& numbers,
                       int64_t first,
                       int64_t last);

}  // namespace tenon
