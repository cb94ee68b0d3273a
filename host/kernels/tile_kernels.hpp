// SPDX-License-Identifier: Apache-2.0
//
// Products of small matrices in cache, for one instruction set; included only by kernels that
// each_machine.hpp compiles. Rows of matrices are padded to whole vectors, and their number to
// whole tiles.

// Size of the result tile that a product keeps in registers: rows and vectors.
inline constexpr int64_t kTileRows = kLanes == 16 ? 12 : 6;
inline constexpr int64_t kTileVectors = 2;
inline constexpr int64_t kTileColumns = kTileVectors * kLanes;

// The left factor: its element (i, k) is data[i * row + k * depth].
struct TileLeft {
  const float* data;
  int64_t row;
  int64_t depth;
};

// kScaleAdd: c = factors[i] c + a b for row i.
enum class TileInto { kSet, kAdd, kScaleAdd };

// c = a b for one tile. `b_row` and `c_row` are distances between rows.
template <int64_t kVectors, TileInto kInto>
SIMD_INLINE void tile_product(TileLeft a,
                              const float* b,
                              int64_t b_row,
                              float* c,
                              int64_t c_row,
                              int64_t depth,
                              const float* factors) {
  Floats sums[kTileRows][kVectors];
#pragma GCC unroll 12
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      if constexpr (kInto == TileInto::kSet) {
        sums[i][v] = Floats{};
      } else if constexpr (kInto == TileInto::kAdd) {
        sums[i][v] = load(c + i * c_row + v * kLanes);
      } else {
        sums[i][v] = load(c + i * c_row + v * kLanes) * splat(factors[i]);
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Floats row[kVectors];
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      row[v] = load(b + k * b_row + v * kLanes);
    }
#pragma GCC unroll 12
    for (int64_t i = 0; i < kTileRows; ++i) {
      const Floats factor = splat(a.data[i * a.row + k * a.depth]);
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[i][v] += factor * row[v];
      }
    }
  }
#pragma GCC unroll 12
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      store(c + i * c_row + v * kLanes, sums[i][v]);
    }
  }
}

// The same for kTileRows rows of `columns` columns, which are whole vectors.
template <TileInto kInto>
inline void row_product(TileLeft a,
                        const float* b,
                        float* c,
                        int64_t row,
                        int64_t columns,
                        int64_t depth,
                        const float* factors) {
  int64_t j = 0;
  for (; j + kTileColumns <= columns; j += kTileColumns) {
    tile_product<kTileVectors, kInto>(a, b + j, row, c + j, row, depth, factors);
  }
  if (j < columns) {
    tile_product<1, kInto>(a, b + j, row, c + j, row, depth, factors);
  }
}

// Transposes 4 x 4 numbers. Lists of elements become unpack instructions.
using FourFloats __attribute__((vector_size(16), aligned(4), may_alias)) = float;

SIMD_INLINE void turn_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  FourFloats a = *reinterpret_cast<const FourFloats*>(from);
  FourFloats b = *reinterpret_cast<const FourFloats*>(from + from_row);
  FourFloats c = *reinterpret_cast<const FourFloats*>(from + 2 * from_row);
  FourFloats d = *reinterpret_cast<const FourFloats*>(from + 3 * from_row);
  const FourFloats ac_low = {a[0], c[0], a[1], c[1]};
  const FourFloats ac_high = {a[2], c[2], a[3], c[3]};
  const FourFloats bd_low = {b[0], d[0], b[1], d[1]};
  const FourFloats bd_high = {b[2], d[2], b[3], d[3]};
  a = FourFloats{ac_low[0], bd_low[0], ac_low[1], bd_low[1]};
  b = FourFloats{ac_low[2], bd_low[2], ac_low[3], bd_low[3]};
  c = FourFloats{ac_high[0], bd_high[0], ac_high[1], bd_high[1]};
  d = FourFloats{ac_high[2], bd_high[2], ac_high[3], bd_high[3]};
  *reinterpret_cast<FourFloats*>(to) = a;
  *reinterpret_cast<FourFloats*>(to + to_row) = b;
  *reinterpret_cast<FourFloats*>(to + 2 * to_row) = c;
  *reinterpret_cast<FourFloats*>(to + 3 * to_row) = d;
}

// to[i][t] = from[t][i].
inline void turn_rows(
    const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
  const int64_t whole_rows = rows / 4 * 4;
  const int64_t whole_columns = columns / 4 * 4;
  for (int64_t t = 0; t < whole_rows; t += 4) {
    for (int64_t i = 0; i < whole_columns; i += 4) {
      turn_square(from + t * from_row + i, from_row, to + i * to_row + t, to_row);
    }
  }
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = t < whole_rows ? whole_columns : 0; i < columns; ++i) {
      to[i * to_row + t] = from[t * from_row + i];
    }
  }
}
