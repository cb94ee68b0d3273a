// SPDX-License-Identifier: Apache-2.0
//
// How head_loss.cpp cuts logits into tiles, and which of their rows it computes.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

struct LogitTileSizes {
  int64_t rows;
  int64_t columns;
};

// Wide tiles of many rows: few sums over tiles, and products of good shapes.
inline LogitTileSizes logit_tile_sizes(int64_t num_rows, int64_t num_classes) {
  constexpr int64_t kTileElements = 1 << 20;
  constexpr int64_t kTileRows = 2048;  // fewer only if there are fewer; more if classes are few
  constexpr int64_t kTileColumns = 64;
  const int64_t rows = std::min(num_rows, std::max(kTileRows, kTileElements / num_classes));
  const int64_t columns = kTileElements / rows / kTileColumns * kTileColumns;
  return {rows, std::min(num_classes, std::max(kTileColumns, columns))};
}

// Rows and columns of the logits that a tile has.
struct LogitTileRange {
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
};

template <class Visit>
void visit_logit_tiles(int64_t num_rows, int64_t num_classes, const Visit& visit) {
  if (num_rows == 0) {
    return;
  }
  const LogitTileSizes sizes = logit_tile_sizes(num_rows, num_classes);
  for (int64_t row = 0; row < num_rows; row += sizes.rows) {
    for (int64_t column = 0; column < num_classes; column += sizes.columns) {
      visit(LogitTileRange{.row = row,
                           .rows = std::min(sizes.rows, num_rows - row),
                           .column = column,
                           .columns = std::min(sizes.columns, num_classes - column)});
    }
  }
}

// Returns the rows to compute: those whose label counts, in order, and a few others up to a
// multiple of 32, so that few shapes occur. Undefined if these are nearly all rows.
//
// Shapes  labels_N 64-bit; the result is [R], 64-bit
inline at::Tensor rows_to_compute(const at::Tensor& labels_N, int64_t ignore_index) {
  if (!labels_N.device().is_cpu()) {
    return {};  // the number of rows would have to be read from the device
  }
  constexpr int64_t kRowStep = 32;
  const std::span labels(labels_N.const_data_ptr<int64_t>(), static_cast<size_t>(labels_N.numel()));
  const auto N = static_cast<int64_t>(labels.size());
  const int64_t num_counted = N - std::ranges::count(labels, ignore_index);
  const int64_t num_rows = (num_counted + kRowStep - 1) / kRowStep * kRowStep;
  if (num_rows > N - N / 8) {
    return {};
  }
  at::Tensor rows_R = at::empty({num_rows}, labels_N.options());
  auto* row = rows_R.mutable_data_ptr<int64_t>();
  int64_t num_others = num_rows - num_counted;
  for (int64_t i = 0; i < N; ++i) {
    const bool is_counted = labels[static_cast<size_t>(i)] != ignore_index;
    if (is_counted || num_others > 0) {
      *row++ = i;
      num_others -= is_counted ? 0 : 1;
    }
  }
  return rows_R;
}

inline at::Tensor chosen_rows(const at::Tensor& x, const at::Tensor& rows_R) {
  return rows_R.defined() ? x.index_select(0, rows_R) : x;
}

// Zeros in rows that were not chosen.
inline at::Tensor scattered_rows(const at::Tensor& chosen,
                                 const at::Tensor& rows_R,
                                 int64_t num_rows) {
  if (!rows_R.defined() || !chosen.defined()) {
    return chosen;
  }
  std::vector<int64_t> shape = chosen.sizes().vec();
  shape[0] = num_rows;
  return at::zeros(shape, chosen.options()).index_copy_(0, rows_R, chosen);
}

}  // namespace tenon
