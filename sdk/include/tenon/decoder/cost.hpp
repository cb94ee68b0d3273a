// SPDX-License-Identifier: Apache-2.0
//
// Costs of a decoder's blocks: operations of a forward, bytes that autograd saves in it, and peak
// additional bytes of a backward. Mirrors attention.hpp, feed_forward.hpp and the host's operators
// tensor by tensor; tests compare it with an allocator's counts. `kept` excludes a block's inputs,
// outputs, parameters and buffers.
#ifndef TENON_DECODER_COST_HPP
#define TENON_DECODER_COST_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/spec.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Sizes of a block's input, and how it is computed. */
struct CostSizes {
  double rows = 0;             /* samples times positions */
  double samples = 0;          /* B */
  double positions = 0;        /* T */
  std::vector<double> lengths; /* of the sequences in the rows; empty: each row is one */
  double bytes = 4;            /* of an element of activations and parameters */
  bool on_cpu = true;
  bool fused = false;   /* the host's own kernels */
  bool narrows = false; /* autocast: products take narrow copies of their operands */

  /* Bytes of an element in products and attention. */
  double narrow() const { return narrows ? 2 : bytes; }
  /* Saved by `n` products of one input: the input, and narrow copies. */
  double inputs(double n, double width) const {
    return narrows ? n * rows * width * 2 : rows * width * bytes;
  }
  double weights(double elements) const { return narrows ? elements * 2 : 0; }
};

struct DecoderCost {
  double flops = 0;
  double kept = 0;
  double working = 0;
};

namespace internal {

/* Peak of a running sum. */
class CostPeak {
 public:
  CostPeak& add(double bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
    return *this;
  }
  CostPeak& free(double bytes) {
    now_ -= bytes;
    return *this;
  }
  double most() const { return most_; }

 private:
  double now_ = 0;
  double most_ = 0;
};

/* Backward of a product with a weight [out, in], without its frees. `joined`: of several. `again`:
 * bytes of an input that is computed again. */
inline void product_backward(CostPeak& peak,
                             const CostSizes& s,
                             double in,
                             double out,
                             bool joined = false,
                             double again = 0) {
  const double weight = in * out * s.bytes;
  peak.add(joined ? weight : 0).add(s.rows * in * s.bytes).free(joined ? weight : 0);
  peak.add(again).add(weight).free(again);
}

/* Whether products compute a norm's result again in backward instead of keeping it. */
inline bool computes_norm_again(const CostSizes& s) {
  return s.fused && s.on_cpu && !s.narrows;
}

/* Saved by `n` products of a norm's result. */
inline double normed_inputs(const CostSizes& s, double n, double width) {
  return computes_norm_again(s) ? 0 : s.inputs(n, width);
}

/* Saved by a norm of `rows` rows besides its input and output. */
inline double norm_keeps(const CostSizes& s, NormKind kind, double rows, double width) {
  const double scales = rows * std::max(s.bytes, 4.0) * (kind == NormKind::kLayer ? 2 : 1);
  if (s.fused || !s.on_cpu || kind == NormKind::kLayer) {
    return scales;
  }
  const double x = rows * width;
  return s.bytes < 4 ? 2 * x * 4 + scales : x * s.bytes + scales;
}
/* Whether a norm saves its input: not if it widens the input first. */
inline bool norm_keeps_input(const CostSizes& s) {
  return s.fused || !s.on_cpu || s.bytes >= 4;
}
/* Allocated by the backward of a norm. */
inline double norm_works(const CostSizes& s, double width) {
  constexpr double kRowsAPiece = 128;
  return s.fused ? s.rows * width * s.bytes + (s.rows / kRowsAPiece + 1) * width * s.bytes
                 : 4 * s.rows * width * std::max(s.bytes, 4.0);
}

/* Pairs of a query and a key that it sees: its own position and those before it in its sequence, at
 * most `window` of them. */
inline double attended_pairs(const CostSizes& s, const DecoderAttention& a) {
  const auto pairs = [&a](double length) {
    const auto window = static_cast<double>(a.window);
    const double full = window > 0 ? std::min(window, length) : length;
    return full * (full + 1) / 2 + (length - full) * full;
  };
  if (s.lengths.empty()) {
    return s.samples * pairs(s.positions);
  }
  double sum = 0;
  for (const double length : s.lengths) {
    sum += pairs(length);
  }
  return sum;
}

/* The norm after f: saves its input and scales. */
inline double after_norm_keeps(const CostSizes& s, const DecoderSpec& d) {
  const auto D = static_cast<double>(d.width);
  const bool is_after = d.placement == NormPlacement::kPost || d.placement == NormPlacement::kBoth;
  return is_after ? s.rows * D * s.bytes + norm_keeps(s, d.norm, s.rows, D) : 0;
}

}  // namespace internal

inline DecoderCost attention_cost(const CostSizes& s, const DecoderSpec& d, const DecoderLayer& l) {
  using namespace internal;
  const DecoderAttention& a = l.attention;
  const double M = s.rows;
  const double e = s.narrow();
  const auto D = static_cast<double>(d.width);
  const auto H = static_cast<double>(a.num_heads);
  const auto q = static_cast<double>(a.num_heads * a.head_width);
  const auto kv = static_cast<double>(a.num_kv_heads * a.head_width);
  const bool has_before = d.placement != NormPlacement::kPost;
  const bool fused = s.fused && d.attention_dropout == 0.0;
  double value = q;        // width of the attention's result
  double products = 0;     // elements of weights
  double projected = 0;    // saved between input and attention, beside what attention saves
  double in_products = 3;  // products of the block's (normed) input
  DecoderCost c;

  if (a.latent.has_value()) {
    const LatentAttention& at = *a.latent;
    const auto rank = static_cast<double>(at.kv_rank);
    const auto q_rank = static_cast<double>(at.query_rank);
    const auto rotated = static_cast<double>(at.rotated);
    const auto plain_value = H * static_cast<double>(at.plain + at.value);
    value = H * static_cast<double>(at.value);
    in_products = 2;
    products = D * (rank + rotated) + rank * plain_value +
               (q_rank > 0 ? D * q_rank + q_rank * q : D * q) + value * D;
    // Compressed tensors, norms of them, values among keys.
    const double num_kept = computes_norm_again(s) ? 1 : 2;
    projected = M * e * (num_kept * (rank + q_rank) + rotated + plain_value) +
                norm_keeps(s, NormKind::kRms, M, rank) +
                (q_rank > 0 ? norm_keeps(s, NormKind::kRms, M, q_rank) : 0);
  } else {
    products = D * (q + 2 * kv) + q * D;
    if (a.qk_norm != QueryKeyNorm::kNone) {
      const bool is_wide = a.qk_norm == QueryKeyNorm::kWidth;
      const double q_rows = is_wide ? M : M * H;
      const double k_rows = is_wide ? M : M * static_cast<double>(a.num_kv_heads);
      projected = (norm_keeps_input(s) ? M * (q + kv) * e : 0) +
                  norm_keeps(s, d.norm, q_rows, q / q_rows * M) +
                  norm_keeps(s, d.norm, k_rows, kv / k_rows * M);
    }
  }

  // What attention saves: queries, keys, values, sums.
  const double heads_kv = a.latent.has_value() ? q : kv;
  double saved = 0;
  if (fused) {
    // Latent values stay a part of `projected`.
    const double values = a.latent.has_value() ? 0 : heads_kv;
    saved = M * (q + heads_kv + values) * e + M * H * s.bytes;
  } else {
    const double repeated = s.on_cpu ? q : heads_kv;
    const double tables = e == 4 ? 0 : 2 * s.positions * static_cast<double>(a.head_width) * e;
    const double scores = s.samples * H * s.positions * s.positions * e;
    saved = M * (q + 2 * repeated) * e + tables +
            (d.attention_dropout > 0 ? 3 * scores
             : a.softcap > 0         ? 2 * scores
                                     : M * H * 4);
  }
  const double result = M * value * e * (a.latent.has_value() && fused ? 2 : 1);
  const double dropout = d.residual_dropout > 0 ? M * D * e : 0;
  c.flops = 2 * M * products + 2 * (q + value) * attended_pairs(s, a);
  c.kept = (has_before ? norm_keeps(s, d.norm, M, D) + normed_inputs(s, in_products, D)
                       : s.inputs(in_products, D) - (s.narrows ? 0 : M * D * s.bytes)) +
           projected + saved + result + s.weights(products) + dropout + after_norm_keeps(s, d);

  // Backward in execution order: allocations are added, autograd's releases are freed.
  CostPeak peak;
  if (after_norm_keeps(s, d) > 0) {
    peak.add(norm_works(s, D)).free(after_norm_keeps(s, d));
  }
  product_backward(peak, s, value, D);
  peak.free(result + s.weights(value * D));
  const double grads = M * (q + 2 * (s.on_cpu && !s.fused ? q : heads_kv)) * e;
  const double weights_grads =
      d.attention_dropout > 0 ? 2 * s.samples * H * s.positions * s.positions * e : 0;
  peak.add(grads + weights_grads).free(saved + weights_grads);
  if (projected > 0) {
    peak.add(projected).free(projected);
  }
  const double again = has_before && computes_norm_again(s) ? M * D * s.bytes : 0;
  product_backward(peak, s, D, q + 2 * heads_kv, s.fused, again);
  peak.free(grads + projected + (again > 0 ? 0 : s.inputs(in_products, D)));
  if (has_before) {
    peak.add(norm_works(s, D));
  }
  c.working = peak.most();
  return c;
}

namespace internal {

/* Whether the host has a kernel for a gated layer with this activation. It keeps gate and up, and
 * computes their product again in backward. */
inline bool is_swiglu(const CostSizes& s, const std::string& activation) {
  return s.fused && activation == "silu";
}

}  // namespace internal

inline DecoderCost feed_forward_cost(const CostSizes& s,
                                     const DecoderSpec& d,
                                     const DecoderLayer& l) {
  using namespace internal;
  const DecoderFeedForward& f = l.feed_forward;
  const double M = s.rows;
  const double e = s.narrow();
  const auto D = static_cast<double>(d.width);
  const bool has_before = d.placement != NormPlacement::kPost;
  const double dropout = d.residual_dropout > 0 ? M * D * e : 0;
  DecoderCost c;
  CostPeak peak;
  if (after_norm_keeps(s, d) > 0) {
    peak.add(norm_works(s, D)).free(after_norm_keeps(s, d));
  }
  const double again = has_before && computes_norm_again(s) ? M * D * s.bytes : 0;
  double in_products = 2;
  double weights = 0;
  if (f.experts.has_value()) {
    const DecoderExperts& x = *f.experts;
    const auto X = static_cast<double>(x.num_experts);
    const auto k = static_cast<double>(x.per_token);
    const auto F = static_cast<double>(x.width);
    const auto shared = static_cast<double>(x.shared_width);
    weights = D * X + 3 * D * F * X + 3 * D * shared;
    c.flops = 2 * M * (D * X + 3 * D * F * k + 3 * D * shared);
    // Gate and up of each pair, the router's scores, the shared expert.
    const double num_shared = s.fused ? 2 : 3;
    c.kept = M * k * 2 * F * e + M * (2 * X + 4 * k) * 4 + num_shared * M * shared * e;
    peak.add(again);
    peak.add(3 * D * F * X * s.bytes).add(M * k * D * s.bytes).add(2 * M * D * s.bytes);
    peak.free(again);
  } else {
    const auto F = static_cast<double>(f.width);
    const bool has_kernel = f.is_gated && is_swiglu(s, f.activation);
    // Gate, up, their product, and without a kernel the activation of the gate.
    const double num_fed = f.is_gated ? (has_kernel ? 3 : 4) : 2;
    const double num_again = has_kernel ? 1 : 0;
    const double num_in = f.is_gated ? 2 : 1;
    in_products = num_in;
    weights = (num_in + 1) * D * F;
    c.flops = 2 * M * weights;
    c.kept = (num_fed - num_again) * M * F * e;
    peak.add(num_again * M * F * e);
    product_backward(peak, s, F, D);  // down
    peak.free(M * F * e + s.weights(D * F));
    peak.add(num_in * M * F * e).free((num_fed - 1) * M * F * e + (has_kernel ? M * F * e : 0));
    if (has_kernel) {
      product_backward(peak, s, D, 2 * F, true, again);  // gate, up
      peak.free(2 * M * F * e);
    } else {
      for (int i = 0; i < static_cast<int>(num_in); ++i) {
        product_backward(peak, s, D, F, false, again);
        peak.free(M * F * e);
      }
    }
  }
  peak.free((again > 0 ? 0 : s.inputs(in_products, D)) + s.weights(weights));
  if (has_before) {
    peak.add(norm_works(s, D));
  }
  c.kept += (has_before ? norm_keeps(s, d.norm, M, D) + normed_inputs(s, in_products, D)
                        : s.inputs(in_products, D) - (s.narrows ? 0 : M * D * s.bytes)) +
            s.weights(weights) + dropout + after_norm_keeps(s, d);
  c.working = peak.most();
  return c;
}

/* The memory: products of keys and values, norms of keys and queries, the gate. */
inline DecoderCost memory_cost(const CostSizes& s, const DecoderSpec& d) {
  using namespace internal;
  const auto D = static_cast<double>(d.width);
  const auto M = static_cast<double>(d.memory->width());
  const double wide = s.rows * D * s.bytes;
  const double product = s.rows * D * s.narrow();
  DecoderCost c;
  c.flops = 2 * s.rows * M * 2 * D;
  // Rows side by side, values and keys, normed queries and keys, the gate.
  c.kept = s.inputs(2, M) + s.weights(2 * M * D) + product + (norm_keeps_input(s) ? product : 0) +
           2 * wide + s.rows * s.bytes + 2 * norm_keeps(s, NormKind::kRms, s.rows, D);
  CostPeak peak;
  peak.add(2 * wide).add(2 * norm_works(s, D)).free(2 * norm_works(s, D));
  product_backward(peak, s, M, D);
  product_backward(peak, s, M, D);
  peak.add(s.rows * M * s.bytes);
  c.working = peak.most();
  return c;
}

/* The embedding: its backward allocates a gradient as large as the table. */
inline DecoderCost embedding_cost(const CostSizes& s, const DecoderSpec& d) {
  const auto D = static_cast<double>(d.width);
  DecoderCost c;
  c.kept = d.embedding_dropout > 0 ? s.rows * D * s.bytes : 0;
  c.working = static_cast<double>(d.vocab_size) * D * s.bytes;
  return c;
}

inline DecoderCost head_cost(const CostSizes& s, const DecoderSpec& d) {
  using namespace internal;
  const auto D = static_cast<double>(d.width);
  const auto V = static_cast<double>(d.vocab_size);
  const double logits = s.narrows ? s.rows * V * 2 : 0;  // before widening
  DecoderCost c;
  c.flops = 2 * s.rows * D * V;
  c.kept = norm_keeps(s, d.norm, s.rows, D) + normed_inputs(s, 1, D) + s.weights(D * V) + logits +
           (d.logit_softcap > 0 ? s.rows * V * s.bytes : 0);
  CostPeak peak;
  peak.add(logits + (d.logit_softcap > 0 ? 2 * s.rows * V * s.bytes : 0));
  product_backward(peak, s, D, V, false, computes_norm_again(s) ? s.rows * D * s.bytes : 0);
  peak.free(normed_inputs(s, 1, D) + s.weights(D * V) + 2 * logits);
  peak.add(norm_works(s, D));
  c.working = peak.most();
  return c;
}

/* Logits exist in chunks of rows only. */
inline DecoderCost head_logps_cost(const CostSizes& s, const DecoderSpec& d) {
  using namespace internal;
  const auto D = static_cast<double>(d.width);
  const auto V = static_cast<double>(d.vocab_size);
  DecoderCost c;
  c.flops = 2 * s.rows * D * V;
  c.kept = norm_keeps(s, d.norm, s.rows, D) + s.inputs(1, D) + s.rows * 4;
  CostPeak peak;
  peak.add(V * D * s.bytes).add(s.rows * D * s.bytes).add(norm_works(s, D));
  c.working = peak.most();
  return c;
}

TENON_NAMESPACE_END

#endif
