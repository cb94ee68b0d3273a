// SPDX-License-Identifier: Apache-2.0
//
// How the rows of a sample's ids become one value, and how the value's gradient goes back to them
// (TENON_POOL_* of model.h). It knows no table: rows are given, by position.
// Invariants: an entry without a row adds nothing and gets nothing; a sample without entries gives
// zeros; gradients of a row are summed in the order of entries. Threads: functions of their
// arguments; `pool` shares samples out among the compute threads.
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
  at::Tensor offsets;  // i64 [B + 1]; undefined where each sample has `per_sample` entries
  at::Tensor weights;  // f32 [entries]; undefined where there are none
  int64_t num_samples = 0;
  int64_t per_sample = 1;
  bool is_matrix = false;  // the ids came as [B, n]

  int64_t num_entries() const { return ids.numel(); }
};

struct Pooling {
  uint32_t kind = 0;   // TENON_POOL_*
  int64_t length = 0;  // of TENON_POOL_FIRST_N
  int64_t dim = 0;
};

// True for poolings that read the entries' weights.
bool is_weighted(uint32_t kind);

// Makes the value of a lookup.
// Shapes  positions [entries]: entry e reads row positions[e] of `rows`; rows [distinct, dim];
// gives
//         the value as model.h says, fp32. `chosen` gets, for a maximum, the entry that each
//         element came from, -1 where there is none
at::Tensor pool(const Pooling& pooling,
                const LookupIds& ids,
                std::span<const uint32_t> positions,
                const float* rows,
                std::vector<int32_t>* chosen);

// Adds the gradient of that value to those of the rows, entry by entry.
// Shapes  grad as `pool` gave, f32, contiguous; row_grads [distinct, dim], added to; num_used
//         [distinct]: how often each row got a share, added to. Entries at positions where
//         `has_row` is 0 are left out
void add_pooled_grad(const Pooling& pooling,
                     const LookupIds& ids,
                     std::span<const uint32_t> positions,
                     std::span<const uint8_t> has_row,
                     const at::Tensor& grad,
                     std::span<const int32_t> chosen,
                     float* row_grads,
                     int64_t* num_used);

}  // namespace tenon
