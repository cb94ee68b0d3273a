// SPDX-License-Identifier: Apache-2.0
//
// Vectorized update of rows; included only by each_machine.hpp. Narrow values are widened into a
// buffer, updated there in fp32, and rounded back.

#define ROW_INLINE SIMD_INLINE

SIMD_INLINE float root_of(float x) {
  return __builtin_sqrtf(x);
}
SIMD_INLINE float scalar_root_of(float x) {
  return __builtin_sqrtf(x);
}
SIMD_INLINE double double_root_of(double x) {
  return __builtin_sqrt(x);
}
SIMD_INLINE double power_of(double x, int64_t n) {
  return __builtin_pow(x, static_cast<double>(n));
}

#include "row_elements.hpp"
#include "row_formulas.hpp"

// Row addresses are random: without prefetching, each row waits for memory.
SIMD_INLINE void prefetch_row(const RowsCall& call, size_t i) {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 1024;  // the hardware prefetcher handles the rest
  const char* const row = row_address(call, call.rows_R[i]);
  const size_t bytes = call.stride < kMost ? call.stride : kMost;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(row + at, 1);
  }
  __builtin_prefetch(row + bytes - 1, 1);
}

// The lowest 32 bits of numbers [first, first + n) of a stream, and of a few after them.
SIMD_INLINE void random_words(
    uint64_t seed, uint64_t id, uint64_t first, int64_t n, uint32_t* words) {
  const uint64_t skipped = first % 2;
  for (int64_t k = -static_cast<int64_t>(skipped); k < n; k += 2 * kLanes) {
    const uint64_t block = (first + static_cast<uint64_t>(k)) / 2;
    Words x0;
    Words x1;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      x0[lane] = static_cast<uint32_t>(block + static_cast<uint64_t>(lane));
      x1[lane] = static_cast<uint32_t>((block + static_cast<uint64_t>(lane)) >> 32);
    }
    Words x2 = Words{} + static_cast<uint32_t>(id);
    Words x3 = Words{} + static_cast<uint32_t>(id >> 32);
    uint32_t key0 = static_cast<uint32_t>(seed);
    uint32_t key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Words high0;
      Words low0;
      Words high1;
      Words low1;
      multiply(x0, 0xD2511F53u, high0, low0);
      multiply(x2, 0xCD9E8D57u, high1, low1);
      x0 = high1 ^ x1 ^ key0;
      x1 = low1;
      x2 = high0 ^ x3 ^ key1;
      x3 = low0;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    // Numbers 2b and 2b + 1 are x0 and x2 of block b. A number before `first` is discarded.
    uint32_t pairs[2 * kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      pairs[2 * lane] = x0[lane];
      pairs[2 * lane + 1] = x2[lane];
    }
    const int64_t from = k < 0 ? 1 : 0;
    __builtin_memcpy(
        words + k + from, pairs + from, static_cast<size_t>(2 * kLanes - from) * sizeof(uint32_t));
  }
}

SIMD_INLINE void widen_row(const RowsCall& call, const char* row, float* out) {
  const auto* const value = reinterpret_cast<const uint16_t*>(row + call.value_offset);
  const int64_t dim = call.dim;
  if (call.value == RowValue::kBf16) {
    for (int64_t j = 0; j < dim; ++j) {
      out[j] = bf16_to_float(value[j]);
    }
  } else {
    for (int64_t j = 0; j < dim; ++j) {
      out[j] = f16_to_float(value[j]);
    }
  }
}

// From fp32 back to narrow; to nearest if there is a master copy.
SIMD_INLINE void round_row(
    const RowsCall& call, char* row, int64_t id, const float* from, uint32_t* words) {
  auto* const value = reinterpret_cast<uint16_t*>(row + call.value_offset);
  const int64_t dim = call.dim;
  const bool is_bf16 = call.value == RowValue::kBf16;
  if (call.master_offset >= 0) {
    for (int64_t j = 0; j < dim; ++j) {
      value[j] = is_bf16 ? float_to_bf16(from[j]) : float_to_f16(from[j]);
    }
    return;
  }
  const uint64_t first = static_cast<uint64_t>(*call.step) * call.dim;
  random_words(call.seed, static_cast<uint64_t>(id), first, dim, words);
  if (is_bf16) {
    for (int64_t j = 0; j < dim; ++j) {
      value[j] = cut_to_bf16(from[j], words[j]);
    }
  } else {
    for (int64_t j = 0; j < dim; ++j) {
      value[j] = cut_to_f16(from[j], words[j]);
    }
  }
}

// The fields of a row that an update modifies.
template <int kNumSlots>
struct RowFields {
  float* value;
  float* slots[kNumSlots + 1];  // one more, since an array cannot be empty
  const float* grad;
  float factor;  // of the gradient
};

// `n` elements from `at`, at most one vector. A full vector needs no loop.
template <class Formula>
SIMD_INLINE void update_whole(const Formula& formula,
                              const RowFields<Formula::kNumSlots>& row,
                              int64_t at,
                              float scale) {
  const Floats value = load(row.value + at);
  Floats slots[Formula::kNumSlots + 1];
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    slots[s] = load(row.slots[s] + at);
  }
  const Floats grad = formula.whole_grad(value, load(row.grad + at) * row.factor);
  store(row.value + at, formula.next(value, grad, slots, scale));
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    store(row.slots[s] + at, slots[s]);
  }
}
template <class Formula>
SIMD_INLINE void update_part(const Formula& formula,
                             const RowFields<Formula::kNumSlots>& row,
                             int64_t at,
                             int64_t n,
                             float scale) {
  const Floats value = load_part(row.value + at, n, 0.0f);
  Floats slots[Formula::kNumSlots + 1];
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    slots[s] = load_part(row.slots[s] + at, n, 0.0f);
  }
  const Floats grad = formula.whole_grad(value, load_part(row.grad + at, n, 0.0f) * row.factor);
  store_part(row.value + at, formula.next(value, grad, slots, scale), n);
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    store_part(row.slots[s] + at, slots[s], n);
  }
}

template <class Formula>
SIMD_INLINE float mean_square(const Formula& formula,
                              const RowFields<Formula::kNumSlots>& row,
                              int64_t dim) {
  const int64_t whole = dim - dim % kLanes;
  Floats sum{};
  for (int64_t at = 0; at < whole; at += kLanes) {
    const Floats grad = formula.whole_grad(load(row.value + at), load(row.grad + at) * row.factor);
    sum += grad * grad;
  }
  if (whole < dim) {
    const Floats value = load_part(row.value + whole, dim - whole, 0.0f);
    const Floats grad =
        formula.whole_grad(value, load_part(row.grad + whole, dim - whole, 0.0f) * row.factor);
    sum += grad * grad;
  }
  return sum_of(sum) / static_cast<float>(dim);
}

// One update. `buffer` holds dim numbers, `words` dim + 2 * kLanes.
template <class Formula>
void update_rows(const RowsCall& call,
                 const typename Formula::Settings& settings,
                 float* buffer,
                 uint32_t* words) {
  // Rows to prefetch ahead: more if rows are small, since the processor limits the cache lines in
  // flight.
  const size_t wanted = 3072 / (call.stride + 1);
  const size_t ahead = wanted < 8 ? 8 : wanted > 24 ? 24 : wanted;
  const Formula formula(settings, *call.lr, *call.step);
  const int64_t dim = call.dim;
  const int64_t whole = dim - dim % kLanes;
  const bool is_narrow = call.value != RowValue::kF32;
  for (size_t i = 0; i < ahead && i < call.n; ++i) {
    prefetch_row(call, i);
  }
  for (size_t i = 0; i < call.n; ++i) {
    if (i + ahead < call.n) {
      prefetch_row(call, i + ahead);
    }
    char* const at_row = row_address(call, call.rows_R[i]);
    RowFields<Formula::kNumSlots> row;
    row.grad = call.grads_RD + i * static_cast<size_t>(dim);
    row.factor = call.counts_R == nullptr ? 1.0f : 1.0f / static_cast<float>(call.counts_R[i]);
    row.value = reinterpret_cast<float*>(at_row + call.value_offset);
    if (is_narrow && call.master_offset >= 0) {
      row.value = reinterpret_cast<float*>(at_row + call.master_offset);
    } else if (is_narrow) {
      widen_row(call, at_row, buffer);
      row.value = buffer;
    }
    for (int s = 0; s < Formula::kNumSlots; ++s) {
      row.slots[s] = reinterpret_cast<float*>(at_row + call.slot_offsets[s]);
    }
    float scale = 0.0f;
    if constexpr (Formula::kHasRowSlot) {
      scale = formula.next_scale(
          mean_square(formula, row, dim),
          reinterpret_cast<float*>(at_row + call.slot_offsets[Formula::kNumSlots]));
    }
    for (int64_t at = 0; at < whole; at += kLanes) {
      update_whole(formula, row, at, scale);
    }
    if (whole < dim) {
      update_part(formula, row, whole, dim - whole, scale);
    }
    if (is_narrow) {
      round_row(call, at_row, call.ids_R[i], row.value, words);
    }
  }
}

#undef ROW_INLINE
