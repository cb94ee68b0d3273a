// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/product_tiles.hpp"

#include <algorithm>

using namespace tenon;

#define SIMD_KERNELS "host/kernels/product_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {

ProductTiles product_tiles() {
  return SIMD_CHOICE(sizes_of_tiles)();
}

void multiply_rows(const RowProducts& rows) {
  SIMD_CHOICE(multiply_dense_rows)(rows);
}

void pack_rows(const MatrixView& a, int64_t rows, int64_t depth, float* to) {
  SIMD_CHOICE(pack_tile_rows)(a, rows, depth, to);
}

void pack_columns(const MatrixView& b, int64_t columns, int64_t depth, float* to) {
  SIMD_CHOICE(pack_tile_columns)(b, columns, depth, to);
}

void multiply(const ProductBlock& block) {
  SIMD_CHOICE(multiply_tiles)(block);
}

}  // namespace tenon
