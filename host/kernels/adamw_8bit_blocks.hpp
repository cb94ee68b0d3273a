// SPDX-License-Identifier: Apache-2.0
//
// Updates of AdamW with 8-bit state, block by block, without ATen. A block of state is one scale
// and a code per element; the value of an element is scale * map[code]. The map is dynamic: its
// values are linear in each decade from 1e-6 to 1, with twice as many in each next decade.
//
// A code is a magnitude f: 127 + f and 127 - f with signs, f without. Magnitude 0 stands for 0, and
// the largest for 1. The others of one decade are one octave of the numbers 2 f + 1 (with signs) or
// f + 1 (without). With n of them in the decade that ends at 10^-k, the p-th, from 0, has the value
// 10^-k (0.9 (p + 1/2) / n + 0.1).
//
// Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022), sections 2.1
// and 2.2, in the form of torchao's AdamW8bit.
#pragma once

#include <cstdint>

namespace tenon {

// The map as lookup tables.
struct DynamicMap {
  // Value of a number x, 2 f + 1 or f + 1, by the exponent bits of x modulo 16: x * scale + offset.
  float scale[16] = {};
  float offset[16] = {};
  // Smallest values that are rounded to the first magnitude, to each next decade, to 1.
  float starts[8] = {};
  // By the number of starts that a value x reaches: its magnitude is x * inverse + shift, rounded
  // down, and at most `most`.
  float inverse[16] = {};
  float shift[16] = {};
  float most[16] = {};
  // By the exponent of a value, at least 96, modulo 32: the start in its octave, and the number of
  // starts below the octave.
  float octave_start[32] = {};
  int32_t octave_entry[32] = {};
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
