// SPDX-License-Identifier: Apache-2.0
//
// CPU kernels of the loss over rows of logits, without ATen. Computes in fp64 for fp64 logits and
// in fp32 for others; sums over rows are fp64.
// Invariant: rows are independent, so no result depends on how rows are assigned to threads.
#pragma once

#include <tenon/simd/softmax_rows.hpp>

#include <cstdint>

enum class RowType { kFloat, kDouble, kBFloat16 };

// Dense rows of `num_classes` elements: of the classes that this rank has, from `first_class` on,
// of `whole_classes` of all ranks.
struct LogitRows {
  const void* logits = nullptr;
  RowType type = RowType::kFloat;
  int64_t num_classes = 0;
  const int64_t* labels = nullptr;
  const double* weights = nullptr;  // per label; null: all 1
  int64_t first_class = 0;
  int64_t whole_classes = 0;  // 0: num_classes

  int64_t whole() const { return whole_classes > 0 ? whole_classes : num_classes; }
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

// What the loss of a row x with label y needs of its classes. That of all classes follows from
// those of the ranks.
struct RowTerms {
  RowStats stats = {.largest = 0.0, .sum = 1.0};
  double label = 0.0;  // x[y]; 0 if another rank has class y
  double total = 0.0;  // sum(x)
};

// Sums over rows [begin, end), of which this rank has all classes. `stats` has one entry per row;
// entries of ignored labels are not written.
RowSums sum_rows(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowStats* stats);

// Writes the terms of rows [begin, end), of this rank's classes. Those of ignored rows are 0.
void write_row_terms(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowTerms* terms);

// Sums over rows [begin, end), by their terms of all classes.
RowSums sum_row_terms(const LogitRows& rows,
                      const RowOptions& options,
                      int64_t begin,
                      int64_t end,
                      const RowTerms* terms);

// Writes `seed` times the gradient of the sum with respect to the logits of rows [begin, end) to
// `gradient`, in the logits' type.
void write_row_gradients(const LogitRows& rows,
                         const RowOptions& options,
                         const RowStats* stats,
                         double seed,
                         int64_t begin,
                         int64_t end,
                         void* gradient);
