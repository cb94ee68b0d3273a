// SPDX-License-Identifier: Apache-2.0
//
// The parts of a matrix product c = a b in fp32, without ATen: both factors are packed into tiles
// that stay in cache, and multiplied block by block; or few rows are multiplied as they are.
// Invariant: the order of the sum of an element of c does not depend on the blocks.
//
// Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008), section
// 4; tiles of Van Zee and van de Geijn, BLIS: A Framework for Rapidly Instantiating BLAS
// Functionality (2015), section 3.
#pragma once

#include <cstdint>

namespace tenon {

// A matrix of any strides: element (i, j) is data[i * row + j * column].
struct MatrixView {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
};

// Sizes on this machine: of the tile of c in registers, and the largest depth (number of k) of a
// packed block.
struct ProductTiles {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};
ProductTiles product_tiles();

// Dot products of dense rows: c[i, j] = the sum of a[i, k] b[j, k] over k. Reads b once, as fast as
// memory allows, so it serves few rows of a.
struct RowProducts {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  int64_t a_row = 0;  // distance of rows of a
  int64_t b_row = 0;
  int64_t c_row = 0;
  int64_t num_rows = 0;     // of a and c
  int64_t num_columns = 0;  // of c: rows of b
  int64_t depth = 0;
};
void multiply_rows(const RowProducts& rows);

// Packs `rows` rows of a, or `columns` columns of b, over `depth` values of k. Both are padded with
// zeros to whole tiles: `to` has room for that.
void pack_rows(const MatrixView& a, int64_t rows, int64_t depth, float* to);
void pack_columns(const MatrixView& b, int64_t columns, int64_t depth, float* to);

// A block of c with dense rows: set to the product of packed factors, or added to.
struct ProductBlock {
  const float* rows = nullptr;     // packed
  const float* columns = nullptr;  // packed
  float* c = nullptr;
  int64_t c_row = 0;  // distance of rows of c
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  int64_t depth = 0;
  bool adds = false;
};
void multiply(const ProductBlock& block);

}  // namespace tenon
