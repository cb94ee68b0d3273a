// SPDX-License-Identifier: Apache-2.0
//
// Pools the rows of a sample's ids into one value, and distributes the value's gradient over the
// rows (TENON_POOL_* of model.h). It does not access tables: callers pass rows, by position.
// Invariants: An entry without a row gets no gradient. The value of a sample without entries is
// zero. The gradients of a row are summed in the order of entries.
// Threads: any, with separate outputs; `pool` divides samples among the compute threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// The ids of a lookup in one microbatch.
struct LookupIds {
  at::Tensor ids;      // i64 [entries], contiguous, on the CPU
  at::Tensor offsets;  // i64 [B + 1]; undefined if each sample has `per_sample` entries
  at::Tensor weights;  // f32 [entries]; undefined without weights
  int64_t num_samples = 0;
  int64_t per_sample = 1;
  bool is_matrix = false;  // the ids were given as [B, n]

  int64_t num_entries() const { return ids.numel(); }
};

struct Pooling {
  uint32_t kind = 0;   // TENON_POOL_*
  int64_t length = 0;  // rows per sample, for TENON_POOL_FIRST_N
  int64_t dim = 0;
};

// True for poolings that read the entries' weights.
bool is_weighted(uint32_t kind);

// Returns the value of a lookup, in fp32. For TENON_POOL_MAX, `chosen` receives the entry that each
// element is from, or -1 if the sample has no entries.
// Shapes  positions [entries]: entry e reads row positions[e] of `rows`; rows [distinct, dim];
//         result: as in model.h; chosen [B, dim]
at::Tensor pool(const Pooling& pooling,
                const LookupIds& ids,
                std::span<const uint32_t> positions,
                const float* rows,
                std::vector<int32_t>* chosen);

// Adds the gradient of that value to the gradients of the rows, entry by entry. Skips entries at
// positions for which `has_row` is 0.
// Shapes  grad: as returned by `pool`, f32, contiguous; row_grads [distinct, dim], added to;
//         num_used [distinct]: number of entries that used each row, added to
void add_pooled_grad(const Pooling& pooling,
                     const LookupIds& ids,
                     std::span<const uint32_t> positions,
                     std::span<const uint8_t> has_row,
                     const at::Tensor& grad,
                     std::span<const int32_t> chosen,
                     float* row_grads,
                     int64_t* num_used);

}  // namespace tenon
