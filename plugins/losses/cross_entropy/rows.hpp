// SPDX-License-Identifier: Apache-2.0
//
// What the loss needs of rows of logits on a CPU, without ATen. In fp64 for logits of fp64, in fp32
// for others; sums over rows are fp64.
// Invariant: rows are worked on alone, so that no result depends on how they are dealt to threads.
#pragma once

#include <cstdint>

enum class RowType { kFloat, kDouble, kBFloat16 };

// Rows of `num_classes` elements, dense.
struct LogitRows {
  const void* logits = nullptr;
  RowType type = RowType::kFloat;
  int64_t num_classes = 0;
  const int64_t* labels = nullptr;
  const double* weights = nullptr;  // of labels; null: each is 1
};

struct RowOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss = 0.0;
};

// What a backward needs to know of a row x besides x.
struct RowStats {
  double largest = 0.0;  // m = max(x)
  double sum = 0.0;      // sum(exp(x - m))
};

// Over rows: the loss, what of it is z-loss, and the labels counted, by weight.
struct RowSums {
  double loss = 0.0;
  double z_loss = 0.0;
  double count = 0.0;
};

// Sums over rows [begin, end). `stats` is by row; those of ignored labels stay as they are.
RowSums sum_rows(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowStats* stats);

// Writes the gradient of the sum, times `seed`, by the logits of rows [begin, end) to `gradient`,
// of the logits' type.
void write_row_gradients(const LogitRows& rows,
                         const RowOptions& options,
                         const RowStats* stats,
                         double seed,
                         int64_t begin,
                         int64_t end,
                         void* gradient);
