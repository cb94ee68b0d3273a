// SPDX-License-Identifier: Apache-2.0
//
// The functions of product_tiles.hpp for one instruction set; included only by product_tiles.cpp.
#include "host/kernels/tile_kernels.hpp"

// A packed panel of this depth fits into the first cache.
inline constexpr int64_t kDepth = kLanes == 16 ? 256 : 384;

ProductTiles sizes_of_tiles() {
  return {.rows = kTileRows, .columns = kTileColumns, .depth = kDepth};
}

// Packs `num` lines of `depth` elements, at most kWidth: to[k * kWidth + i] is element k of line i.
// `line` and `step` are distances between lines and between elements of a line.
template <int64_t kWidth>
inline void pack_lines(
    const float* from, int64_t line, int64_t step, int64_t num, int64_t depth, float* to) {
  if (num < kWidth) {
    std::fill(to, to + depth * kWidth, 0.0f);
  }
  if (step == 1) {
    turn_rows(from, line, to, kWidth, num, depth);
  } else if (line == 1 && num == kWidth) {
    for (int64_t k = 0; k < depth; ++k) {
      __builtin_memcpy(to + k * kWidth, from + k * step, kWidth * sizeof(float));
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < num; ++i) {
        to[k * kWidth + i] = from[i * line + k * step];
      }
    }
  }
}

void pack_tile_rows(const MatrixView& a, int64_t rows, int64_t depth, float* to) {
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t num = std::min(kTileRows, rows - i);
    pack_lines<kTileRows>(a.data + i * a.row, a.row, a.column, num, depth, to + i * depth);
  }
}

void pack_tile_columns(const MatrixView& b, int64_t columns, int64_t depth, float* to) {
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    const int64_t num = std::min(kTileColumns, columns - j);
    pack_lines<kTileColumns>(b.data + j * b.column, b.column, b.row, num, depth, to + j * depth);
  }
}

// A tile at the edge of c: computed whole beside c, and copied in part.
template <TileInto kInto>
void multiply_edge(
    TileLeft a, const float* b, float* c, int64_t c_row, int64_t rows, int64_t columns, int64_t k) {
  float tile[kTileRows * kTileColumns] = {};
  if constexpr (kInto == TileInto::kAdd) {
    for (int64_t i = 0; i < rows; ++i) {
      __builtin_memcpy(
          tile + i * kTileColumns, c + i * c_row, static_cast<size_t>(columns) * sizeof(float));
    }
  }
  tile_product<kTileVectors, kInto>(a, b, kTileColumns, tile, kTileColumns, k, nullptr);
  for (int64_t i = 0; i < rows; ++i) {
    __builtin_memcpy(
        c + i * c_row, tile + i * kTileColumns, static_cast<size_t>(columns) * sizeof(float));
  }
}

template <TileInto kInto>
void multiply_all(const ProductBlock& block) {
  for (int64_t j = 0; j < block.num_columns; j += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, block.num_columns - j);
    const float* const b = block.columns + j * block.depth;
    for (int64_t i = 0; i < block.num_rows; i += kTileRows) {
      const int64_t rows = std::min(kTileRows, block.num_rows - i);
      const TileLeft a{block.rows + i * block.depth, 1, kTileRows};
      float* const c = block.c + i * block.c_row + j;
      if (rows == kTileRows && columns == kTileColumns) {
        tile_product<kTileVectors, kInto>(a, b, kTileColumns, c, block.c_row, block.depth, nullptr);
      } else {
        multiply_edge<kInto>(a, b, c, block.c_row, rows, columns, block.depth);
      }
    }
  }
}

void multiply_tiles(const ProductBlock& block) {
  if (block.adds) {
    multiply_all<TileInto::kAdd>(block);
  } else {
    multiply_all<TileInto::kSet>(block);
  }
}

// Dot products of one row of a with kRows rows of b.
template <int64_t kRows>
SIMD_INLINE void dot_products(
    const float* a, const float* b, int64_t b_row, int64_t depth, float* c) {
  Floats sums[kRows] = {};
  const int64_t whole = depth - depth % kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    const Floats factor = load(a + k);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kRows; ++j) {
      sums[j] += factor * load(b + j * b_row + k);
    }
  }
  if (whole < depth) {
    const Floats factor = load_part(a + whole, depth - whole, 0.0f);
    for (int64_t j = 0; j < kRows; ++j) {
      sums[j] += factor * load_part(b + j * b_row + whole, depth - whole, 0.0f);
    }
  }
  for (int64_t j = 0; j < kRows; ++j) {
    c[j] = sum_of(sums[j]);
  }
}

void multiply_dense_rows(const RowProducts& of) {
  constexpr int64_t kTogether = 4;
  int64_t j = 0;
  for (; j + kTogether <= of.num_columns; j += kTogether) {
    for (int64_t i = 0; i < of.num_rows; ++i) {
      dot_products<kTogether>(
          of.a + i * of.a_row, of.b + j * of.b_row, of.b_row, of.depth, of.c + i * of.c_row + j);
    }
  }
  for (; j < of.num_columns; ++j) {
    for (int64_t i = 0; i < of.num_rows; ++i) {
      dot_products<1>(
          of.a + i * of.a_row, of.b + j * of.b_row, of.b_row, of.depth, of.c + i * of.c_row + j);
    }
  }
}
