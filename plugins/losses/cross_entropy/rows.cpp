// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <tenon/simd/bf16.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace {

template <class T>
struct RowMath {
  RowStats (*stats)(const T* x, int64_t n);
  double (*sum)(const T* x, int64_t n);
  void (*gradient)(const T* x, int64_t n, int64_t label, const SoftmaxSlopes& slopes, T* gradient);
};

}  // namespace

#include <tenon/simd/each_machine.hpp>

namespace {

// fp64 is for exactness: scalar code.
RowStats stats_of_doubles(const double* x, int64_t n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += std::exp(x[i] - largest);
  }
  return {largest, sum};
}

double sum_of_doubles(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0);
}

void gradient_of_doubles(
    const double* x, int64_t n, int64_t label, const SoftmaxSlopes& s, double* gradient) {
  for (int64_t i = 0; i < n; ++i) {
    gradient[i] = std::exp(x[i] - s.largest) * s.slope - s.spread;
  }
  gradient[label] -= s.at_label;
}

constexpr RowMath<double> kDoubleRows{stats_of_doubles, sum_of_doubles, gradient_of_doubles};

template <class T>
RowSums sum_rows_of(const RowMath<T>& math,
                    const LogitRows& rows,
                    const RowOptions& options,
                    int64_t begin,
                    int64_t end,
                    RowStats* stats) {
  const T* logits = static_cast<const T*>(rows.logits);
  const double kept = 1.0 - options.label_smoothing;
  RowSums sums;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = rows.labels[row];
    if (label == options.ignore_index) {
      continue;
    }
    const T* x = logits + row * rows.num_classes;
    const double weight = rows.weights == nullptr ? 1.0 : rows.weights[row];
    stats[row] = math.stats(x, rows.num_classes);
    const double z = stats[row].largest + std::log(stats[row].sum);
    double loss = z - kept * static_cast<double>(x[label]);
    if (options.label_smoothing > 0.0) {
      loss -= options.label_smoothing * math.sum(x, rows.num_classes) /
              static_cast<double>(rows.num_classes);
    }
    const double z_loss = options.z_loss * z * z;
    sums.loss += weight * (loss + z_loss);
    sums.z_loss += weight * z_loss;
    sums.count += weight;
  }
  return sums;
}

template <class T>
void write_terms_of(const RowMath<T>& math,
                    const LogitRows& rows,
                    const RowOptions& options,
                    int64_t begin,
                    int64_t end,
                    RowTerms* terms) {
  const int64_t n = rows.num_classes;
  for (int64_t row = begin; row < end; ++row) {
    terms[row] = {};
    if (rows.labels[row] == options.ignore_index) {
      continue;
    }
    const T* x = static_cast<const T*>(rows.logits) + row * n;
    const int64_t label = rows.labels[row] - rows.first_class;
    terms[row].stats = math.stats(x, n);
    terms[row].label = label >= 0 && label < n ? static_cast<double>(x[label]) : 0.0;
    terms[row].total = options.label_smoothing > 0.0 ? math.sum(x, n) : 0.0;
  }
}

template <class T>
void write_gradients_of(const RowMath<T>& math,
                        const LogitRows& rows,
                        const RowOptions& options,
                        const RowStats* stats,
                        double seed,
                        int64_t begin,
                        int64_t end,
                        T* gradient) {
  const T* logits = static_cast<const T*>(rows.logits);
  const int64_t n = rows.num_classes;
  const double smoothing = options.label_smoothing;
  for (int64_t row = begin; row < end; ++row) {
    T* g = gradient + row * n;
    if (rows.labels[row] == options.ignore_index) {
      std::fill(g, g + n, T{});
      continue;
    }
    const int64_t label = rows.labels[row] - rows.first_class;
    const bool is_here = label >= 0 && label < n;
    const double scale = seed * (rows.weights == nullptr ? 1.0 : rows.weights[row]);
    const RowStats& s = stats[row];
    const double z = s.largest + std::log(s.sum);
    const SoftmaxSlopes slopes{.largest = s.largest,
                               .slope = scale * (1.0 + 2.0 * options.z_loss * z) / s.sum,
                               .spread = scale * smoothing / static_cast<double>(rows.whole()),
                               .at_label = is_here ? scale * (1.0 - smoothing) : 0.0};
    math.gradient(logits + row * n, n, is_here ? label : 0, slopes, g);
  }
}

}  // namespace

RowSums sum_rows(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowStats* stats) {
  switch (rows.type) {
    case RowType::kDouble:
      return sum_rows_of(kDoubleRows, rows, options, begin, end, stats);
    case RowType::kBFloat16:
      return sum_rows_of(*SIMD_CHOICE(kBf16Rows), rows, options, begin, end, stats);
    case RowType::kFloat:
      break;
  }
  return sum_rows_of(*SIMD_CHOICE(kFloatRows), rows, options, begin, end, stats);
}

void write_row_terms(
    const LogitRows& rows, const RowOptions& options, int64_t begin, int64_t end, RowTerms* terms) {
  switch (rows.type) {
    case RowType::kDouble:
      return write_terms_of(kDoubleRows, rows, options, begin, end, terms);
    case RowType::kBFloat16:
      return write_terms_of(*SIMD_CHOICE(kBf16Rows), rows, options, begin, end, terms);
    case RowType::kFloat:
      break;
  }
  write_terms_of(*SIMD_CHOICE(kFloatRows), rows, options, begin, end, terms);
}

RowSums sum_row_terms(const LogitRows& rows,
                      const RowOptions& options,
                      int64_t begin,
                      int64_t end,
                      const RowTerms* terms) {
  const double smoothing = options.label_smoothing;
  RowSums sums;
  for (int64_t row = begin; row < end; ++row) {
    if (rows.labels[row] == options.ignore_index) {
      continue;
    }
    const RowTerms& t = terms[row];
    const double weight = rows.weights == nullptr ? 1.0 : rows.weights[row];
    const double z = t.stats.largest + std::log(t.stats.sum);
    const double mean = t.total / static_cast<double>(rows.whole());
    const double z_loss = options.z_loss * z * z;
    sums.loss += weight * (z - (1.0 - smoothing) * t.label - smoothing * mean + z_loss);
    sums.z_loss += weight * z_loss;
    sums.count += weight;
  }
  return sums;
}

void write_row_gradients(const LogitRows& rows,
                         const RowOptions& options,
                         const RowStats* stats,
                         double seed,
                         int64_t begin,
                         int64_t end,
                         void* gradient) {
  switch (rows.type) {
    case RowType::kDouble:
      return write_gradients_of(
          kDoubleRows, rows, options, stats, seed, begin, end, static_cast<double*>(gradient));
    case RowType::kBFloat16:
      return write_gradients_of(*SIMD_CHOICE(kBf16Rows),
                                rows,
                                options,
                                stats,
                                seed,
                                begin,
                                end,
                                static_cast<Bf16*>(gradient));
    case RowType::kFloat:
      break;
  }
  write_gradients_of(*SIMD_CHOICE(kFloatRows),
                     rows,
                     options,
                     stats,
                     seed,
                     begin,
                     end,
                     static_cast<float*>(gradient));
}
