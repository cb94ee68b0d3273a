// SPDX-License-Identifier: Apache-2.0
//
// Costs of the blocks: operations, bytes that autograd saves in forward, and peak additional bytes
// in backward. Mirrors llama.cpp and the host's operators tensor by tensor; a test compares it with
// an allocator's counts. Letters as in llama.cpp. `kept` excludes a block's inputs, outputs,
// parameters and buffers.
#pragma once

#include <algorithm>
#include <cstdint>

// Sizes of a layer and of its input.
struct LayerSizes {
  double B = 0;      // samples
  double T = 0;      // positions
  double D = 0;      // width
  double H = 0;      // query heads
  double K = 0;      // key and value heads
  double E = 0;      // width of a head
  double F = 0;      // width of the feed-forward layer
  double table = 0;  // positions in the rotary table
  double bytes = 4;  // per element of activations and parameters
  bool on_cpu = true;
  bool fused = false;    // the host's own kernels; attention too, unless with dropout
  bool narrows = false;  // autocast: products take narrow copies of their operands
  bool drops = false;    // dropout

  double rows() const { return B * T; }
  double kv() const { return K * E; }
  // Bytes per element in products and attention.
  double narrow() const { return narrows ? 2 : bytes; }
};

struct BlockCost {
  double flops = 0;
  double kept = 0;
  double working = 0;
};

// Peak of a running sum.
class PeakOf {
 public:
  PeakOf& add(double bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
    return *this;
  }
  PeakOf& free(double bytes) {
    now_ -= bytes;
    return *this;
  }
  double most() const { return most_; }

 private:
  double now_ = 0;
  double most_ = 0;
};

// Backward of the product of [rows, in] with a weight [out, in], without its frees. `joined`:
// several weights were concatenated.
inline void product_backward(
    PeakOf& peak, const LayerSizes& s, double in, double out, bool joined = false) {
  const double weight = in * out * s.bytes;
  peak.add(joined ? weight : 0).add(s.rows() * in * s.bytes).free(joined ? weight : 0).add(weight);
}

// Backward of a fused norm: partial weight gradients, one row per piece.
inline double norm_pieces(const LayerSizes& s) {
  constexpr double kRowsAPiece = 128;
  return (s.rows() / kRowsAPiece + 1) * s.D * s.bytes;
}

// Saved by a norm, in addition to its input and output.
inline double norm_keeps(const LayerSizes& s) {
  const double x = s.rows() * s.D;
  const double scales = s.rows() * std::max(s.bytes, 4.0);
  if (s.fused || !s.on_cpu) {
    return scales;
  }
  return s.bytes < 4 ? 2 * x * 4 + scales : x * s.bytes + scales;  // normalized; widened input
}
// Whether a norm saves its input: not if it widens the input first.
inline bool norm_keeps_input(const LayerSizes& s) {
  return s.fused || !s.on_cpu || s.bytes >= 4;
}

// Saved by `n` products of the same input: input and weights.
inline double inputs_kept(const LayerSizes& s, double n, double width) {
  return s.narrows ? n * s.rows() * width * 2 : s.rows() * width * s.bytes;
}
inline double weights_kept(const LayerSizes& s, double elements) {
  return s.narrows ? elements * 2 : 0;
}

inline double products_of_layer(const LayerSizes& s) {
  return s.D * (s.D + 2 * s.kv()) + s.D * s.D + 3 * s.D * s.F;
}

inline double layer_flops(const LayerSizes& s) {
  // Scores and their product with values; a causal mask halves both.
  const double attention = s.H * s.E * s.T;
  return 2 * s.rows() * (products_of_layer(s) + attention);
}

// Queries, keys and values saved by attention, and its row sums.
inline double attention_keeps(const LayerSizes& s) {
  const double M = s.rows();
  if (s.fused && !s.drops) {
    const double table = s.T < s.table ? s.T * s.E * s.bytes : 0;  // dense copy of the used part
    return M * (s.D + 2 * s.kv()) * s.bytes + M * s.H * s.bytes + table;
  }
  const double e = s.narrow();
  const double kv = s.on_cpu ? s.D : s.kv();  // keys and values are repeated on a CPU
  const double tables = e == 4 ? 0 : 2 * s.T * s.E * e;
  // With dropout all scores are saved: raw, the mask, and masked.
  const double scores = s.drops ? 3 * s.B * s.H * s.T * s.T * e : M * s.H * 4;
  return M * (s.D + 2 * kv) * e + tables + scores;
}

inline BlockCost layer_block(const LayerSizes& s) {
  const double M = s.rows();
  const double e = s.narrow();
  const double x = M * s.D * s.bytes;
  const double fed = M * s.F * e;
  const double num_fed = s.fused ? 3 : 4;  // gate, up, their product; silu of gate
  const double attention = attention_keeps(s);
  BlockCost f;
  f.flops = layer_flops(s);
  f.kept = 2 * norm_keeps(s) + inputs_kept(s, 3, s.D) + attention + M * s.D * e +
           (norm_keeps_input(s) ? x : 0) + inputs_kept(s, 2, s.D) + num_fed * fed +
           weights_kept(s, products_of_layer(s)) + (s.drops ? 2 * M * s.D * e : 0);

  // Backward in execution order: allocations are added, autograd's releases are freed.
  PeakOf peak;
  product_backward(peak, s, s.F, s.D);  // down
  peak.free(fed + weights_kept(s, s.D * s.F));
  peak.add(2 * fed).free((num_fed - 1) * fed + (s.fused ? fed : 0));  // swiglu
  if (s.fused) {
    product_backward(peak, s, s.D, 2 * s.F, true);  // gate, up
    peak.free(2 * fed);
  } else {
    product_backward(peak, s, s.D, s.F);
    peak.free(fed);
    product_backward(peak, s, s.D, s.F);
    peak.free(fed + x);
  }
  peak.free(inputs_kept(s, 2, s.D) + weights_kept(s, 2 * s.D * s.F));
  const double norm = s.fused ? x + norm_pieces(s) : 4 * M * s.D * std::max(s.bytes, 4.0);
  peak.add(norm).free(norm).free(norm_keeps(s) + (norm_keeps_input(s) ? x : 0));
  product_backward(peak, s, s.D, s.D);  // output of attention
  peak.free(M * s.D * e + weights_kept(s, s.D * s.D));
  const double grads = M * (s.D + 2 * (s.on_cpu && !s.fused ? s.D : s.kv())) * e;
  peak.add(grads + (s.drops ? 2 * s.B * s.H * s.T * s.T * e : 0));
  peak.free(x + attention + (s.drops ? 2 * s.B * s.H * s.T * s.T * e : 0));
  product_backward(peak, s, s.D, s.D + 2 * s.kv(), s.fused);
  peak.free(grads + inputs_kept(s, 3, s.D)).add(norm);
  f.working = peak.most();
  return f;
}

inline BlockCost embed_block(const LayerSizes& s, double vocabulary) {
  // Embedding lookup; backward allocates a gradient as large as the table.
  return {.flops = 0, .kept = 0, .working = vocabulary * s.D * s.bytes};
}

inline BlockCost head_block(const LayerSizes& s, double vocabulary) {
  const double logits = s.narrows ? s.rows() * vocabulary * 2 : 0;  // before widening
  BlockCost f;
  f.flops = 2 * s.rows() * s.D * vocabulary;
  f.kept = norm_keeps(s) + inputs_kept(s, 1, s.D) + weights_kept(s, s.D * vocabulary) + logits;
  PeakOf peak;
  peak.add(logits);
  product_backward(peak, s, s.D, vocabulary);
  peak.free(inputs_kept(s, 1, s.D) + weights_kept(s, s.D * vocabulary) + 2 * logits);
  peak.add(s.fused ? s.rows() * s.D * s.bytes + norm_pieces(s)
                   : 4 * s.rows() * s.D * std::max(s.bytes, 4.0));
  f.working = peak.most();
  return f;
}
