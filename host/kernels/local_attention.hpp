// SPDX-License-Identifier: Apache-2.0
//
// tenon::attention and tenon::packed_attention over the positions of this rank, as attention.hpp
// says it. Chooses between own kernels and libtorch's, with autograd.
#pragma once

#include "host/kernels/attention_options.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Errors  c10::Error for shapes and options that attention() refuses
void check_attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const AttentionOptions& options);

// attention() of operands that check_attention accepts.
at::Tensor local_attention(const at::Tensor& query,
                           const at::Tensor& key,
                           const at::Tensor& value,
                           const AttentionOptions& options);

// packed_attention() of a tensor whose width num_heads and num_kv_heads divide.
at::Tensor local_packed_attention(const at::Tensor& qkv,
                                  int64_t num_heads,
                                  int64_t num_kv_heads,
                                  const AttentionOptions& options);

}  // namespace tenon
