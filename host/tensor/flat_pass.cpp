// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, like libtorch. Without OpenMP, the template at::parallel_for runs serially.
// The loops are plain C++ that a compiler can vectorize. On x86, each is compiled for several
// vector widths, and the loader picks one.

#include "host/tensor/flat_pass.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/vector_clones.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tenon {
namespace {

// Sums consist of blocks, and blocks of lanes: the order of additions depends only on the buffer.
constexpr int64_t kBlock = 1 << 15;
constexpr size_t kLanes = 32;
using Lanes = std::array<double, kLanes>;

// Elements per thread below which a thread costs more than it saves.
constexpr int64_t kMinPerThread = 1 << 16;

TENON_SIMD void add_squares(const float* values, int64_t n, double* lanes) {
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) {
      const double value = values[i + static_cast<int64_t>(k)];
      lanes[k] += value * value;
    }
  }
  for (size_t k = 0; i < n; ++i, ++k) {
    const double value = values[i];
    lanes[k] += value * value;
  }
}

TENON_SIMD void add_squares(const double* values, int64_t n, double* lanes) {
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= n; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) {
      const double value = values[i + static_cast<int64_t>(k)];
      lanes[k] += value * value;
    }
  }
  for (size_t k = 0; i < n; ++i, ++k) {
    lanes[k] += values[i] * values[i];
  }
}

TENON_SIMD void multiply(float* values, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) {
    values[i] *= factor;
  }
}

TENON_SIMD void multiply(double* values, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) {
    values[i] *= factor;
  }
}

double total_of(Lanes& lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t k = 0; k < width; ++k) {
      lanes[k] += lanes[k + width];
    }
  }
  return lanes[0];
}

template <class T>
double block_sum(const T* values, int64_t n) {
  alignas(64) Lanes lanes{};
  add_squares(values, n, lanes.data());
  return total_of(lanes);
}

template <class T>
double sum_of(const T* values, int64_t n) {
  if (n <= kBlock) {
    return block_sum(values, n);
  }
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, kMinPerThread / kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sums[static_cast<size_t>(b)] =
          block_sum(values + b * kBlock, std::min(kBlock, n - b * kBlock));
    }
  });
  double total = 0;
  for (const double sum : sums) {
    total += sum;
  }
  return total;
}

template <class T>
void multiply_all(T* values, int64_t n, T factor) {
  if (n <= kMinPerThread) {
    multiply(values, n, factor);
    return;
  }
  at::parallel_for(0, n, kMinPerThread, [&](int64_t begin, int64_t end) {
    multiply(values + begin, end - begin, factor);
  });
}

void check(const at::Tensor& flat) {
  TENON_ASSERT(flat.is_cpu() && flat.is_contiguous() && flat.is_floating_point(),
               "a flat buffer is contiguous CPU memory of a float dtype");
}

}  // namespace

double square_sum(const at::Tensor& flat) {
  check(flat);
  switch (flat.scalar_type()) {
    case at::kFloat:
      return sum_of(flat.const_data_ptr<float>(), flat.numel());
    case at::kDouble:
      return sum_of(flat.const_data_ptr<double>(), flat.numel());
    default:
      return square_sum(flat.to(at::kFloat));
  }
}

double flat_norm(const at::Tensor& flat) {
  const double sum = square_sum(flat);
  if (std::isfinite(sum) || flat.scalar_type() != at::kDouble || flat.numel() == 0) {
    return std::sqrt(sum);
  }
  const auto largest = flat.abs().max().item<double>();
  return std::isfinite(largest) ? largest * std::sqrt(square_sum(flat.div(largest)))
                                : std::sqrt(sum);
}

void scale_flat(at::Tensor& flat, double factor) {
  check(flat);
  switch (flat.scalar_type()) {
    case at::kFloat:
      multiply_all(flat.mutable_data_ptr<float>(), flat.numel(), static_cast<float>(factor));
      break;
    case at::kDouble:
      multiply_all(flat.mutable_data_ptr<double>(), flat.numel(), factor);
      break;
    default:
      flat.mul_(factor);
  }
}

}  // namespace tenon
