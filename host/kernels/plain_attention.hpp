// SPDX-License-Identifier: Apache-2.0
//
// Attention by libtorch's operators, for all dtypes and devices.
#pragma once

#include "host/kernels/attention_options.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// As attention() in attention.hpp, for queries and keys that are rotated already: reads neither
// `rotary` nor `positions`. `first` is the position of query 0 among the keys.
//
// Shapes  query [B, T, H, E], key [B, S, K, E], value [B, S, K, V]; with a causal mask, first + T <=
//         S, and segments are [B, S]; the result is [B, T, H, V]
at::Tensor plain_attention(const at::Tensor& query_BTHE,
                           const at::Tensor& key_BSKE,
                           const at::Tensor& value_BSKV,
                           const AttentionOptions& options,
                           int64_t first);

}  // namespace tenon
