// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/own_product.hpp"

#include "host/kernels/product_tiles.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>

namespace tenon {
namespace {

// Rows of a packed block: with the depth of a block, half of a second cache.
constexpr int64_t kMostRows = 120;

MatrixView view_of(const at::Tensor& x) {
  return {.data = x.const_data_ptr<float>(), .row = x.stride(0), .column = x.stride(1)};
}

// Rows per task: whole tiles, and as many tasks for one thread as for another.
int64_t rows_a_task(int64_t num_rows, int64_t tile_rows, int64_t threads) {
  const int64_t tasks = at::divup(at::divup(num_rows, kMostRows), threads) * threads;
  return at::divup(at::divup(num_rows, tasks), tile_rows) * tile_rows;
}

// Elements of the packed factors: all columns, and the rows of a task for each thread.
struct Packed {
  int64_t depth = 0;
  int64_t rows = 0;  // of a task
  int64_t columns = 0;

  Packed(const ProductTiles& tiles, int64_t M, int64_t N, int64_t K, int64_t threads)
      : depth(std::min(K, tiles.depth)),
        rows(rows_a_task(M, tiles.rows, threads)),
        columns(at::divup(N, tiles.columns) * tiles.columns) {}
};

at::Tensor few_rows_product(const at::Tensor& a_MK,
                            const at::Tensor& b_KN,
                            const std::optional<at::Tensor>& bias_N) {
  constexpr int64_t kTask = 16384;  // elements of b: some microseconds
  const int64_t M = a_MK.size(0);
  const int64_t K = a_MK.size(1);
  const int64_t N = b_KN.size(1);
  at::Tensor c = at::empty({M, N}, a_MK.options());
  const MatrixView a = view_of(a_MK);
  const MatrixView b = view_of(b_KN);
  auto* const c_data = c.mutable_data_ptr<float>();
  at::parallel_for(0, N, at::divup(kTask, K), [&](int64_t begin, int64_t end) {
    multiply_rows({.a = a.data,
                   .b = b.data + begin * b.column,
                   .c = c_data + begin,
                   .a_row = a.row,
                   .b_row = b.column,
                   .c_row = N,
                   .num_rows = M,
                   .num_columns = end - begin,
                   .depth = K});
  });
  return bias_N ? c.add_(*bias_N) : c;
}

}  // namespace

bool is_of_few_rows(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  return a_MK.size(0) <= kFewRows && a_MK.stride(1) == 1 && b_KN.stride(0) == 1;
}

int64_t own_product_bytes(int64_t M, int64_t N, int64_t K, int64_t threads) {
  const Packed packed(product_tiles(), M, N, K, threads);
  return (packed.columns + threads * packed.rows) * packed.depth *
         static_cast<int64_t>(sizeof(float));
}

at::Tensor own_product(const at::Tensor& a_MK,
                       const at::Tensor& b_KN,
                       const std::optional<at::Tensor>& bias_N) {
  RECORD_FUNCTION("tenon::product", c10::ArrayRef<const c10::IValue>());  // for profiles
  if (is_of_few_rows(a_MK, b_KN)) {
    return few_rows_product(a_MK, b_KN, bias_N);
  }
  const int64_t M = a_MK.size(0);
  const int64_t K = a_MK.size(1);
  const int64_t N = b_KN.size(1);
  const ProductTiles tiles = product_tiles();
  const int64_t threads = at::get_num_threads();
  const Packed packed(tiles, M, N, K, threads);
  const int64_t depth = packed.depth;
  const int64_t rows = packed.rows;
  const int64_t num_tasks = at::divup(M, rows);
  const int64_t num_panels = packed.columns / tiles.columns;
  at::Tensor c = at::empty({M, N}, a_MK.options());
  if (bias_N) {
    c.copy_(bias_N->expand({M, N}));
  }
  const at::Tensor columns = at::empty({packed.columns * depth}, c.options());
  const at::Tensor blocks = at::empty({threads, rows * depth}, c.options());
  const MatrixView a = view_of(a_MK);
  const MatrixView b = view_of(b_KN);
  auto* const c_data = c.mutable_data_ptr<float>();
  auto* const packed_columns = columns.mutable_data_ptr<float>();
  auto* const packed_rows = blocks.mutable_data_ptr<float>();
  for (int64_t k = 0; k < K; k += depth) {
    const int64_t num_k = std::min(depth, K - k);
    at::parallel_for(0, num_panels, 16, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * tiles.columns;
      pack_columns({b.data + k * b.row + first * b.column, b.row, b.column},
                   std::min(N, end * tiles.columns) - first,
                   num_k,
                   packed_columns + first * num_k);
    });
    at::parallel_for(0, num_tasks, 1, [&](int64_t begin, int64_t end) {
      float* const own_rows = packed_rows + at::get_thread_num() * rows * depth;
      for (int64_t i = begin * rows; i < std::min(M, end * rows); i += rows) {
        const int64_t num = std::min(rows, M - i);
        pack_rows({a.data + i * a.row + k * a.column, a.row, a.column}, num, num_k, own_rows);
        multiply({.rows = own_rows,
                  .columns = packed_columns,
                  .c = c_data + i * N,
                  .c_row = N,
                  .num_rows = num,
                  .num_columns = N,
                  .depth = num_k,
                  .adds = k > 0 || bias_N.has_value()});
      }
    });
  }
  return c;
}

}  // namespace tenon
