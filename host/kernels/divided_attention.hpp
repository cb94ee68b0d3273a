// SPDX-License-Identifier: Apache-2.0
//
// Attention over sequences whose positions are divided among ranks ("context parallelism"): each
// rank holds the queries, keys and values of one range of positions. Inside a SequenceScope,
// tenon::attention and tenon::packed_attention exchange what they need, and return the rows of this
// rank's positions; blocks do not change. All ranks make the same calls in the same order, also in
// backward, and keep the same results (kept_attention.hpp). Ranks without positions, too.
// Threads: a scope is of the thread that made it. Backward may run on another thread: it uses the
// ranks that its forward used.
//
// Source: Jacobs et al., DeepSpeed Ulysses (2023), section 3, for the exchange of heads.
#pragma once

#include "host/kernels/attention_options.hpp"
#include "host/kernels/sequence_parts.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// tenon::attention over all positions. Positions without `options.positions` are those in the whole
// sequence.
//
// Shapes  as attention(), with T and S the positions of this rank
// Errors  as attention(); c10::Error for dropout, for keys of other positions than the queries, and
//         for tensors that do not have this rank's positions
at::Tensor divided_attention(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const AttentionOptions& options,
                             const SequenceParts& parts);

// tenon::packed_attention over all positions.
//
// Shapes  as packed_attention(), with T the positions of this rank
// Errors  as divided_attention()
at::Tensor divided_packed_attention(const at::Tensor& qkv,
                                    int64_t num_heads,
                                    int64_t num_kv_heads,
                                    const AttentionOptions& options,
                                    const SequenceParts& parts);

}  // namespace tenon
