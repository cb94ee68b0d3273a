// SPDX-License-Identifier: Apache-2.0
//
// Steps of generation of a decoder: the embedding and the attention on new positions. Each
// attention block has two caches, keys and values by head. With longrope, cached keys are not
// rotated, since the table depends on the length of the whole sequence. Tensor ranks have the
// caches of their heads.
#ifndef TENON_DECODER_GENERATION_HPP
#define TENON_DECODER_GENERATION_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/attention.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/generation.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cstdint>

TENON_NAMESPACE_BEGIN

/* Runs an attention block on new positions.
 *
 * Shapes   as run_attention; T counts new positions */
inline at::Tensor step_attention(const GenerationCall& c,
                                 const DecoderSpec& s,
                                 const DecoderLayer& l) {
  const DecoderAttention& a = l.attention;
  const at::Tensor& x_BTD = c.input(0);
  const int64_t T = x_BTD.size(1);
  ParameterCursor p(c);
  const at::Tensor normed = internal::normed_before(p, s, x_BTD);
  AttentionHeads heads = internal::heads_of(p, s, a, normed);
  const bool is_long = a.rotary.has_value() && s.rotaries[*a.rotary].is_long();
  at::Tensor table;
  if (a.rotary.has_value()) {
    table = rotary_of(s.rotaries[*a.rotary], c.buffer(0), c.first() + T);
    const at::Tensor rows = table.narrow(1, c.first(), T);
    heads.query_BTHE = ops::rope(heads.query_BTHE, rows);
    heads.key_BTKE = is_long ? heads.key_BTKE : ops::rope(heads.key_BTKE, rows);
  }
  at::Tensor keys = append_to_cache(c, 0, heads.key_BTKE);
  const at::Tensor values = append_to_cache(c, 1, heads.value_BTKE);
  if (is_long) {
    keys = ops::rope(keys, table);
  }
  const at::Tensor attended =
      cached_attention(heads.query_BTHE, keys, values, attention_options(a)).flatten(2);
  const at::Tensor& output = p.take();
  const at::Tensor y =
      internal::linear_out(attended, output, p.take_if(a.output_bias), value_width(a));
  return x_BTD + internal::normed_after(p, s, y);
}

TENON_NAMESPACE_END

#endif
