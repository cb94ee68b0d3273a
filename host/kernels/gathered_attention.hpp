// SPDX-License-Identifier: Apache-2.0
//
// Attention of this rank's queries and the keys of all positions.
#pragma once

#include "host/kernels/attention_options.hpp"
#include "host/kernels/sequence_parts.hpp"

#include <ATen/core/Tensor.h>

namespace tenon {

// By Tenon's own kernels. Keeps only the tensors of this rank for the backward, which gathers keys
// and values once more. `options` has the positions and segments of all S positions.
//
// Shapes  query_BTHE, key_BTKE and value_BTKV in fp32; the result is [B, T, H, V]
at::Tensor own_gathered_attention(const at::Tensor& query_BTHE,
                                  const at::Tensor& key_BTKE,
                                  const at::Tensor& value_BTKV,
                                  const AttentionOptions& options,
                                  const SequenceParts& parts);

// By libtorch's operators, which keep the keys and values of all positions. Queries and keys are
// rotated already. `options` has the segments of all S positions.
//
// Shapes  as above, in any dtype
at::Tensor plain_gathered_attention(const at::Tensor& query_BTHE,
                                    const at::Tensor& key_BTKE,
                                    const at::Tensor& value_BTKV,
                                    const AttentionOptions& options,
                                    const SequenceParts& parts);

}  // namespace tenon
