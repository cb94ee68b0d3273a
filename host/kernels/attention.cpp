// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/attention.hpp"

#include "host/kernels/divided_attention.hpp"
#include "host/kernels/local_attention.hpp"
#include "host/kernels/tensor_region.hpp"

#include <c10/util/Exception.h>

namespace tenon {
namespace {

// Ranks with the same random numbers would drop the same weights of different heads.
void check_dropout(const AttentionOptions& options) {
  TORCH_CHECK(options.dropout == 0.0 || !tensor_region(),
              "tenon::attention: dropout of attention weights is not possible where ranks divide "
              "the heads (parallel.tensor); set it to 0");
}

}  // namespace

at::Tensor attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const AttentionOptions& options) {
  check_attention(query, key, value, options);
  check_dropout(options);
  const SequenceParts* const parts = sequence_parts();
  return parts == nullptr ? local_attention(query, key, value, options)
                          : divided_attention(query, key, value, options, *parts);
}

at::Tensor packed_attention(const at::Tensor& qkv,
                            int64_t num_heads,
                            int64_t num_kv_heads,
                            const AttentionOptions& options) {
  TORCH_CHECK(qkv.dim() == 3 && num_heads > 0 && num_kv_heads > 0 &&
                  qkv.size(2) % (num_heads + 2 * num_kv_heads) == 0,
              "tenon::packed_attention: qkv ",
              qkv.sizes(),
              " must be [B, T, (H + 2 K) E] with H = ",
              num_heads,
              " and K = ",
              num_kv_heads);
  check_dropout(options);
  const SequenceParts* const parts = sequence_parts();
  return parts == nullptr ? local_packed_attention(qkv, num_heads, num_kv_heads, options)
                          : divided_packed_attention(qkv, num_heads, num_kv_heads, options, *parts);
}

}  // namespace tenon
