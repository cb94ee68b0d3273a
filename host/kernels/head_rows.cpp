// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/head_rows.hpp"

#include <tenon/simd/softmax_rows.hpp>

#include <algorithm>
#include <cmath>

namespace {

struct HeadMath {
  SoftmaxStats (*stats)(const float* x, int64_t n);
  double (*sum)(const float* x, int64_t n);
  void (*gradient)(
      const float* x, int64_t n, int64_t label, const SoftmaxSlopes& slopes, float* gradient);
};

}  // namespace

#define SIMD_KERNELS "host/kernels/head_row_kernels.hpp"
#include <tenon/simd/each_machine.hpp>

namespace tenon {
namespace {

void merge(HeadRow& row, const SoftmaxStats& tile) {
  if (tile.largest > row.largest) {
    row.sum = row.sum * std::exp(row.largest - tile.largest) + tile.sum;
    row.largest = tile.largest;
  } else if (std::isinf(tile.largest) && tile.largest < 0) {
    row.sum += tile.sum;  // 0, or not a number
  } else {
    row.sum += tile.sum * std::exp(tile.largest - row.largest);
  }
}

}  // namespace

void add_tile(
    const LogitTile& tile, const HeadOptions& options, HeadRow* rows, int64_t begin, int64_t end) {
  const HeadMath& math = *SIMD_CHOICE(kHeadMath);
  for (int64_t i = begin; i < end; ++i) {
    if (tile.labels[i] == options.ignore_index) {
      continue;
    }
    const float* const x = tile.logits + i * tile.columns;
    merge(rows[i], math.stats(x, tile.columns));
    const int64_t label = tile.labels[i] - tile.first;
    if (label >= 0 && label < tile.columns) {
      rows[i].at_label = static_cast<double>(x[label]);
    }
    if (options.label_smoothing > 0.0) {
      rows[i].total += math.sum(x, tile.columns);
    }
  }
}

void add_row(HeadRow& row, const HeadRow& part) {
  merge(row, {.largest = part.largest, .sum = part.sum});
  row.at_label += part.at_label;
  row.total += part.total;
}

void add_and_exponentiate(const LogitTile& tile,
                          const HeadOptions& options,
                          HeadRow* rows,
                          float* factors,
                          int64_t begin,
                          int64_t end) {
  const HeadMath& math = *SIMD_CHOICE(kHeadMath);
  for (int64_t i = begin; i < end; ++i) {
    float* const x = tile.logits + i * tile.columns;
    factors[i] = 1.0f;
    if (tile.labels[i] == options.ignore_index) {
      std::fill(x, x + tile.columns, 0.0f);
      continue;
    }
    const double before = rows[i].largest;
    add_tile(tile, options, rows, i, i + 1);
    if (rows[i].largest > before) {
      factors[i] = static_cast<float>(std::exp(before - rows[i].largest));
    }
    if (std::isinf(rows[i].largest) && rows[i].largest < 0) {  // all are excluded so far
      std::fill(x, x + tile.columns, 0.0f);
      continue;
    }
    const int64_t label = tile.labels[i] - tile.first;
    math.gradient(x, tile.columns, label, {.largest = rows[i].largest, .slope = 1.0}, x);
    if (label >= 0 && label < tile.columns) {
      x[label] = 0.0f;
    }
  }
}

HeadSlopes slopes_of(const HeadRow& row, int64_t num_classes, const HeadOptions& options) {
  const double z = row.largest + std::log(row.sum);
  const double others = (1.0 + 2.0 * options.z_loss * z) / row.sum;
  const double spread = options.label_smoothing / static_cast<double>(num_classes);
  return {.others = others,
          .at_label = others * std::exp(row.at_label - row.largest) -
                      (1.0 - options.label_smoothing) - spread,
          .spread = spread};
}

double loss_of(const HeadRow& row, int64_t num_classes, const HeadOptions& options) {
  const double z = row.largest + std::log(row.sum);
  double loss = z - (1.0 - options.label_smoothing) * row.at_label;
  if (options.label_smoothing > 0.0) {
    loss -= options.label_smoothing * row.total / static_cast<double>(num_classes);
  }
  return options.z_loss > 0.0 ? loss + options.z_loss * z * z : loss;
}

void replace_by_gradient(const LogitTile& tile,
                         const HeadOptions& options,
                         const HeadRow* rows,
                         const float* seeds,
                         int64_t begin,
                         int64_t end) {
  const HeadMath& math = *SIMD_CHOICE(kHeadMath);
  for (int64_t i = begin; i < end; ++i) {
    float* const x = tile.logits + i * tile.columns;
    if (tile.labels[i] == options.ignore_index) {
      std::fill(x, x + tile.columns, 0.0f);
      continue;
    }
    const HeadRow& row = rows[i];
    const double seed = static_cast<double>(seeds[i]);
    const HeadSlopes of = slopes_of(row, tile.num_classes, options);
    const SoftmaxSlopes slopes{.largest = row.largest,
                               .slope = seed * of.others,
                               .spread = seed * of.spread,
                               .at_label = seed * (1.0 - options.label_smoothing)};
    math.gradient(x, tile.columns, tile.labels[i] - tile.first, slopes, x);
  }
}

}  // namespace tenon
