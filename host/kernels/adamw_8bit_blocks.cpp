// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/adamw_8bit_blocks.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>

using namespace tenon;

#define SIMD_KERNELS "host/kernels/adamw_8bit_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {
namespace {

constexpr int kDecades = 7;
constexpr int kLowestExponent = 96;  // of a float whose value is rounded to 0

// The number of values in a decade, and the end of a decade, from 1e-6 to 1.
int cells_in(Codes codes, int decade) {
  return 1 << (codes == Codes::kSigned ? decade : decade + 1);
}
double end_of(int decade) {
  return std::pow(10.0, decade - (kDecades - 1));
}

// The first magnitude of a decade; of the decade after the last, the magnitude of 1.
int first_of(Codes codes, int decade) {
  return codes == Codes::kSigned ? cells_in(codes, decade) : cells_in(codes, decade) - 1;
}

double value_at(Codes codes, int decade, double position) {
  return end_of(decade) * (0.9 * (position + 0.5) / cells_in(codes, decade) + 0.1);
}

}  // namespace

double dynamic_value(Codes codes, int code) {
  const int f = codes == Codes::kSigned ? std::abs(code - 127) : code;
  if (f == 0) {
    return 0;
  }
  if (f == first_of(codes, kDecades)) {
    return 1;
  }
  int decade = 0;
  while (f >= first_of(codes, decade + 1)) {
    ++decade;
  }
  const double value = value_at(codes, decade, f - first_of(codes, decade));
  return codes == Codes::kSigned && code < 127 ? -value : value;
}

DynamicMap dynamic_map(Codes codes) {
  const bool is_signed = codes == Codes::kSigned;
  DynamicMap map;
  for (int d = 0; d < kDecades; ++d) {
    const double cells = cells_in(codes, d);
    const double end = end_of(d);
    map.scale[d] = static_cast<float>(end * (is_signed ? 0.45 : 0.9) / cells);
    map.offset[d] = static_cast<float>(end * (is_signed ? -0.8 : 0.45 / cells - 0.8));
    map.inverse[1 + d] = static_cast<float>(cells / (0.9 * end));
    map.shift[1 + d] = static_cast<float>(first_of(codes, d) - cells / 9.0);
    map.most[1 + d] = static_cast<float>(first_of(codes, d + 1) - 1);
    const double before = d == 0 ? 0 : value_at(codes, d - 1, cells_in(codes, d - 1) - 1);
    map.starts[d] = static_cast<float>((before + value_at(codes, d, 0)) / 2);
  }
  map.offset[kDecades] = 1;
  const double last = value_at(codes, kDecades - 1, cells_in(codes, kDecades - 1) - 1);
  map.starts[kDecades] = static_cast<float>((last + 1) / 2);
  map.shift[1 + kDecades] = static_cast<float>(first_of(codes, kDecades));
  map.most[1 + kDecades] = map.shift[1 + kDecades];
  for (int e = 0; e < 32; ++e) {
    const double begin = std::ldexp(1.0, kLowestExponent + e - 127);
    map.octave_start[e] = std::numeric_limits<float>::infinity();
    for (const float start : map.starts) {
      map.octave_entry[e] += start < begin ? 1 : 0;
      if (start >= begin && start < 2 * begin) {
        map.octave_start[e] = start;
      }
    }
  }
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
