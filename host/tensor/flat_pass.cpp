// SPDX-License-Identifier: Apache-2.0
//
// Compiled with OpenMP, like libtorch. Without OpenMP, the template at::parallel_for runs serially.
// The loops are plain C++ that a compiler can vectorize. On x86, each is compiled for several
// vector widths, and the loader picks one.

#include "host/tensor/flat_pass.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/chunk_sums.hpp"
#include "host/tensor/vector_clones.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace tenon {
namespace {

// Elements per thread below which a thread costs more than it saves.
constexpr int64_t kMinPerThread = 1 << 16;

// Chunks whose sums are buffered before they are added exactly; even.
constexpr int64_t kChunksAtOnce = 64;

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

template <class T>
void add_whole_chunks(ExactSum& sum, const T* values, int64_t chunk, int64_t num) {
  alignas(64) double sums[kChunksAtOnce];
  for (int64_t c = 0; c < num; c += kChunksAtOnce) {
    const int64_t at_once = std::min(kChunksAtOnce, num - c);
    sum_chunks(values + c * chunk, chunk, at_once, sums);
    sum.add(std::span<const double>(sums, static_cast<size_t>(at_once)));
  }
}

// Adds fewer elements than a chunk has.
template <class T>
void add_short_chunk(ExactSum& sum, const T* values, int64_t n) {
  double sums[2];
  const int64_t whole = n / kSquareLanes * kSquareLanes;
  if (whole == n) {
    sum_chunks(values, n, 1, sums);
  } else {
    std::vector<T> padded(static_cast<size_t>(whole + kSquareLanes));
    std::copy_n(values, n, padded.data());
    sum_chunks(padded.data(), whole + kSquareLanes, 1, sums);
  }
  sum.add(sums[0]);
}

template <class T>
void add_squares_of(ExactSum& sum, const T* values, int64_t n, int64_t chunk) {
  const int64_t num = n / chunk;
  if (n <= kMinPerThread) {
    add_whole_chunks(sum, values, chunk, num);
  } else {
    std::mutex mutex;
    at::parallel_for(0, num, kMinPerThread / chunk, [&](int64_t begin, int64_t end) {
      ExactSum of_thread;
      add_whole_chunks(of_thread, values + begin * chunk, chunk, end - begin);
      const std::lock_guard lock(mutex);  // in any order: exact sums have none
      sum.add(of_thread);
    });
  }
  if (n % chunk != 0) {
    add_short_chunk(sum, values + num * chunk, n % chunk);
  }
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

void add_squares(ExactSum& sum, const at::Tensor& flat, int64_t chunk) {
  check(flat);
  TENON_ASSERT(chunk > 0 && chunk % kSquareLanes == 0, "chunks consist of whole lanes");
  switch (flat.scalar_type()) {
    case at::kFloat:
      add_squares_of(sum, flat.const_data_ptr<float>(), flat.numel(), chunk);
      break;
    case at::kDouble:
      add_squares_of(sum, flat.const_data_ptr<double>(), flat.numel(), chunk);
      break;
    default:
      add_squares(sum, flat.to(at::kFloat), chunk);
  }
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
