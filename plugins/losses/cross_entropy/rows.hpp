// SPDX-License-Identifier: Apache-2.0
//
// CPU kernels of the loss over rows of logits, without ATen. Computes in fp64 for fp64 logits and
// in fp32 for others; sums over rows are fp64.
// Invariant: rows are independent, so no result depends on how rows are assigned to threads.
#pragma once

#include <tenon/simd/softmax_rows.hpp>

#include <cstdint>

enum class RowType { kFloat, kDouble, kBFloat16 };

// Dense rows of `num_classes` elements.
struct LogitRows {
  const void* logits = nullptr;
  RowType type = RowType::kFloat;
  int64_t num_classes = 0;
  const int64_t* labels = nullptr;
  const double* weights = nullptr;  // per label; null: all 1
};

struct RowOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss = 0.0;
};

// Per-row values that backward needs in addition to the row x.
using RowStats = SoftmaxStats;

// Sums over rows: the loss, its z-loss part, and the weighted label count.
struct RowSums {
  double loss = 0.0;
  double z_loss = 0.0;
  double count = 0.0;
};

// Sums over rows [begin, end). `stats` has one entry per row; entries of ignored labels are not
// written.
RowSums sum_rows(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowStats* stats);

// Writes `seed` times the gradient of the sum with respect to the logits of rows [begin, end) to
// `gradient`, in the logits' type.
void write_row_gradients(const LogitRows& rows,
                         const RowOptions& options,
                         const RowStats* stats,
                         double seed,
                         int64_t begin,
                         int64_t end,
                         void* gradient);
