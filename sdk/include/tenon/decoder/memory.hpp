// SPDX-License-Identifier: Apache-2.0
//
// The memory block of a layer: rows of n-grams, gated by the hidden state and added to it. For the
// rows e of a position, side by side,
//
//     k = norm(W_k e)   q = norm(x)   y = x + sigmoid(<q, k> / sqrt(D)) W_v e
//
// Rows start at zeros, so y = x at the start of training, and for every n-gram without a row.
//
// Letters in tensor names: B samples, T positions, D width, M width of all rows of a position.
//
// Source: Cheng et al., Conditional Memory via Scalable Lookup (2026), section 2. Without its
// convolution, and with rows that several layers share.
#ifndef TENON_DECODER_MEMORY_HPP
#define TENON_DECODER_MEMORY_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/parameters.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Declares the lookups of the memory, and returns their values, [B, T, dim] each.
 *
 * Errors   those of the graph */
inline std::vector<ValueId> look_up_memory(TorchGraph& g, const DecoderMemory& m) {
  std::vector<ValueId> rows;
  for (const std::string& column : m.columns) {
    Lookup lookup;
    lookup.table = column;
    rows.push_back(g.graph().lookup("memory." + column, {"B", "T", m.dim}, column, lookup));
  }
  return rows;
}

/* Declares the parameters of the block, in the order in which `run_memory` reads them. */
inline void declare_memory(DecoderParameters& p, const DecoderSpec& s) {
  const DecoderNames& n = s.names;
  const int64_t width = s.memory->width();
  p.matrix(n.memory_key, {s.width, width, 0, 0, s.initializer_range});
  p.matrix(n.memory_value, {s.width, width, 0, 0, s.initializer_range});
  p.norm(n.memory_query_norm, s.width, NormKind::kRms);
  p.norm(n.memory_key_norm, s.width, NormKind::kRms);
}

/* Runs the block.
 *
 * Shapes   inputs: x [B, T, D], then the rows of each column [B, T, dim]; the result is [B, T, D] */
inline at::Tensor run_memory(const BlockCall& b, const DecoderSpec& s) {
  const at::Tensor& x_BTD = b.input(0);
  std::vector<at::Tensor> rows;
  for (size_t i = 1; i < b.num_inputs(); ++i) {
    rows.push_back(b.input(i));
  }
  const at::Tensor e_BTM = at::cat(rows, 2);
  ParameterCursor p(b);
  // Apart, so that the norm reads dense rows.
  const at::Tensor key_BTD = ops::linear(e_BTM, {p.take()});
  const at::Tensor value_BTD = ops::linear(e_BTM, {p.take()});
  const at::Tensor q_BTD = p.norm(NormKind::kRms, s.norm_eps, x_BTD);
  const at::Tensor k_BTD = p.norm(NormKind::kRms, s.norm_eps, key_BTD);
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.width));
  const at::Tensor gate = at::sigmoid((q_BTD * k_BTD).sum(2, /*keepdim=*/true) * scale);
  return x_BTD + gate * value_BTD;
}

TENON_NAMESPACE_END

#endif
