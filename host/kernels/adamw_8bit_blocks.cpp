// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/adamw_8bit_blocks.hpp"

#include <cmath>
#include <cstdlib>

using namespace tenon;

#define SIMD_KERNELS "host/kernels/adamw_8bit_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {
namespace {

constexpr int kDecades = 7;

int magnitude_of_code(Codes codes, int code) {
  return codes == Codes::kSigned ? std::abs(code - 127) : code + 1;
}

// The first octave of magnitudes has 1 value with signs, 2 without.
int first_octave(Codes codes) {
  return codes == Codes::kSigned ? 0 : 1;
}

// Largest value of a decade, from 1e-6 to 1.
double end_of(int decade) {
  return std::pow(10.0, decade - (kDecades - 1));
}

}  // namespace

double dynamic_value(Codes codes, int code) {
  const int f = magnitude_of_code(codes, code);
  const int first = first_octave(codes);
  if (f < 1 << first) {
    return 0;
  }
  if (f == 1 << (first + kDecades)) {
    return 1;
  }
  int octave = 0;
  while (f >> (octave + 1) > 0) {
    ++octave;
  }
  const double value = end_of(octave - first) * (0.9 / (1 << octave) * (f + 0.5) - 0.8);
  return codes == Codes::kSigned && code < 127 ? -value : value;
}

DynamicMap dynamic_map(Codes codes) {
  DynamicMap map;
  const int first = first_octave(codes);
  const int zero = codes == Codes::kSigned ? 0 : 1;  // magnitude that stands for 0
  map.shift[0] = static_cast<float>(zero);
  map.most[0] = static_cast<float>(zero);
  for (int d = 0; d < kDecades; ++d) {
    const double cells = 1 << (first + d);
    const double end = end_of(d);
    map.scale[1 + first + d] = static_cast<float>(end * 0.9 / cells);
    map.offset[1 + first + d] = static_cast<float>(end * (0.45 / cells - 0.8));
    map.inverse[1 + d] = static_cast<float>(cells / (0.9 * end));
    map.shift[1 + d] = static_cast<float>(0.8 * cells / 0.9);
    map.most[1 + d] = static_cast<float>(2 * cells - 1);
    // The last value of a decade and the first one of the next are 3 cells of the former apart.
    map.starts[d] = static_cast<float>(d == 0 ? end * (0.1 + 0.45 / cells) / 2
                                              : end_of(d - 1) * (1 + 0.9 / (cells / 2)));
  }
  const double cells = 1 << (first + kDecades - 1);
  map.starts[kDecades] = static_cast<float>(1 - 0.225 / cells);
  map.offset[1 + first + kDecades] = 1;
  map.shift[1 + kDecades] = static_cast<float>(2 * cells);
  map.most[1 + kDecades] = static_cast<float>(2 * cells);
  return map;
}

void adamw_8bit_blocks(const Adam8Piece& piece,
                       const Adam8Numbers& numbers,
                       int64_t first,
                       int64_t last) {
  static const DynamicMap signed_map = dynamic_map(Codes::kSigned);
  static const DynamicMap unsigned_map = dynamic_map(Codes::kUnsigned);
  SIMD_CHOICE(adam8_blocks)(piece, numbers, first, last, signed_map, unsigned_map);
}

}  // namespace tenon
