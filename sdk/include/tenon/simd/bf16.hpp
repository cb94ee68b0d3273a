// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// A bfloat16: the upper 16 bits of a float.
struct Bf16 {
  uint16_t bits;
  operator float() const {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float x = 0;
    __builtin_memcpy(&x, &word, sizeof x);
    return x;
  }
};
