// SPDX-License-Identifier: Apache-2.0
//
// The host's operators, for plugins that link libtorch. They are in libtorch's dispatcher, in the
// namespace `tenon`; other lanes call them by name (tenon/cpp/op.hpp). A plugin gets the kernels of
// the host that loads it. All are differentiable. docs/reference/operators.md is their manual.
//
// Letters in shapes: B samples, T positions, S keys, D width, H query heads, K key and value heads,
// E width of a head, F inner width, V rows of an embedding or a head (its vocabulary), R rotated
// features of a head, N tokens, X experts, k experts of a token.
#ifndef TENON_TORCH_OPS_HPP
#define TENON_TORCH_OPS_HPP

#include <tenon/cpp/namespace.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <tuple>

TENON_NAMESPACE_BEGIN

namespace ops {

namespace internal {
template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}
}  // namespace internal

using OptionalTensor = std::optional<at::Tensor>;

/* act(x [w0; w1; ...]^T + bias).
 *
 * Shapes  x [..., D], weights [N_i, D], bias [sum of N_i]; the result is [..., sum of N_i]
 * Errors  c10::Error for an unknown activation ("none", "relu", "gelu", "gelu_tanh", "silu",
 *         "tanh") or shapes that do not match */
inline at::Tensor linear(const at::Tensor& x,
                         at::TensorList weights,
                         const OptionalTensor& bias = std::nullopt,
                         c10::string_view activation = "none") {
  static const auto op = internal::find<at::Tensor(
      const at::Tensor&, at::TensorList, const OptionalTensor&, c10::string_view)>("tenon::linear");
  return op.call(x, weights, bias, activation);
}

/* What the queries of an attention see. */
struct Attention {
  /* cos and sin, [2, at least T, R/2]: rotates the first R features of queries and keys */
  OptionalTensor rotary = std::nullopt;
  /* integers, [B, T]: a query sees keys of its own run of equal numbers */
  OptionalTensor segments = std::nullopt;
  /* a query sees at most this many keys, itself included; 0: all */
  int64_t window = 0;
  /* c: scores become c tanh(score / c); 0: off */
  double softcap = 0.0;
  /* factor of the scores; absent: 1/sqrt(E) */
  std::optional<double> scale = std::nullopt;
  /* probability with which a weight is dropped */
  double dropout = 0.0;
  /* a query sees no later keys */
  bool causal = true;
  /* integers, [B, T]: rows of `rotary`; absent: 0, 1, ... */
  OptionalTensor positions = std::nullopt;
};

/* softmax(scale q k^T, masked) v by head; query head h takes key and value head h / (H/K).
 *
 * Shapes  query [B, T, H, E], key [B, S, K, E], value [B, S, K, at most E]; the result is [B, T, H,
 *         width of a value]. S = T with a causal mask or `rotary`
 * Errors  on a CPU c10::IndexError for a position that `rotary` lacks; c10::Error for shapes or
 *         options that do not match */
inline at::Tensor attention(const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const Attention& o = {}) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const OptionalTensor&,
                                                   const OptionalTensor&,
                                                   int64_t,
                                                   double,
                                                   std::optional<double>,
                                                   double,
                                                   bool,
                                                   const OptionalTensor&)>("tenon::attention");
  return op.call(query,
                 key,
                 value,
                 o.rotary,
                 o.segments,
                 o.window,
                 o.softcap,
                 o.scale,
                 o.dropout,
                 o.causal,
                 o.positions);
}

/* Attention of joined projections, without copies of its parts.
 *
 * Shapes  qkv [B, T, (H + 2 K) E]: queries, keys, values; the result is [B, T, H E]
 * Errors  as attention */
inline at::Tensor packed_attention(const at::Tensor& qkv,
                                   int64_t num_heads,
                                   int64_t num_kv_heads,
                                   const Attention& o = {}) {
  static const auto op =
      internal::find<at::Tensor(const at::Tensor&,
                                int64_t,
                                int64_t,
                                const OptionalTensor&,
                                const OptionalTensor&,
                                int64_t,
                                double,
                                std::optional<double>,
                                double,
                                bool,
                                const OptionalTensor&)>("tenon::packed_attention");
  return op.call(qkv,
                 num_heads,
                 num_kv_heads,
                 o.rotary,
                 o.segments,
                 o.window,
                 o.softcap,
                 o.scale,
                 o.dropout,
                 o.causal,
                 o.positions);
}

/* x / sqrt(mean(x^2) + eps) * weight over the last axis.
 * Shapes  x [..., D], weight [D] */
inline at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op =
      internal::find<at::Tensor(const at::Tensor&, const at::Tensor&, double)>("tenon::rms_norm");
  return op.call(x, weight, eps);
}

/* h = x + delta, and rms_norm(h), in one pass.
 * Shapes  x and delta [..., D], weight [D] */
inline std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x,
                                                       const at::Tensor& delta,
                                                       const at::Tensor& weight,
                                                       double eps) {
  static const auto op = internal::find<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, double)>("tenon::add_rms_norm");
  return op.call(x, delta, weight, eps);
}

/* (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis, with the biased variance.
 *
 * Shapes  x [..., D], weight and bias [D]; absent: 1 and 0
 * Errors  c10::Error if weight or bias is not [D], or x has no axes */
inline at::Tensor layer_norm(const at::Tensor& x,
                             const OptionalTensor& weight,
                             const OptionalTensor& bias,
                             double eps) {
  static const auto op = internal::find<at::Tensor(
      const at::Tensor&, const OptionalTensor&, const OptionalTensor&, double)>(
      "tenon::layer_norm");
  return op.call(x, weight, bias, eps);
}

/* Rotates pairs among the first R features of a head, R/2 features apart, by the angle of their
 * position. Other features stay.
 *
 * Shapes  x [B, T, H, E], any strides; table [2, at least T, at most E/2]: cosines and sines;
 *         positions [B, T], integers: rows of the table; absent: 0, 1, ...
 * Errors  on a CPU c10::IndexError for a position that the table lacks; c10::Error for other shapes
 */
inline at::Tensor rope(const at::Tensor& x,
                       const at::Tensor& table,
                       const OptionalTensor& positions = std::nullopt) {
  static const auto op =
      internal::find<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "tenon::rope");
  return op.call(x, table, positions);
}

/* weight[ids]. The gradient of weight is dense, 0 for rows without ids.
 *
 * Shapes  weight [V, D], ids integers of any shape [...]; the result is [..., D]
 * Errors  on a CPU c10::IndexError for an id outside [0, V), with its position; c10::Error for
 *         other shapes or dtypes */
inline at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids) {
  static const auto op =
      internal::find<at::Tensor(const at::Tensor&, const at::Tensor&)>("tenon::embedding");
  return op.call(weight, ids);
}

/* How labels enter a cross entropy. */
struct CrossEntropy {
  int64_t ignore_index = -100;  /* label value with loss 0 */
  double label_smoothing = 0.0; /* s, in [0, 1]: weight spread evenly over all classes */
  double z_loss = 0.0;          /* c, at least 0: adds c log(sum(exp(logits)))^2 */
};

/* Cross entropy of each label under the logits x weight^T + bias, without the logits in memory: a
 * head and its loss in one. Logits exist in tiles of at most 4 MiB in fp32.
 *
 * Shapes  x [..., D], weight [V, D], labels [...] integers, bias [V]; the result is [...] in fp32,
 *         in fp64 for fp64; 0 for an ignored label
 * Units   nats
 * Errors  on a CPU c10::IndexError for a label that is neither in [0, V) nor ignored, with its
 *         position; c10::Error for shapes, dtypes or options that do not match
 * Source  smoothing: Szegedy et al., Rethinking the Inception Architecture for Computer Vision
 *         (CVPR 2016), section 7; z-loss: Chowdhery et al., PaLM (JMLR 2023), section 5 */
inline at::Tensor cross_entropy(const at::Tensor& x,
                                const at::Tensor& weight,
                                const at::Tensor& labels,
                                const OptionalTensor& bias = std::nullopt,
                                const CrossEntropy& o = {}) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const OptionalTensor&,
                                                   int64_t,
                                                   double,
                                                   double)>("tenon::cross_entropy");
  return op.call(x, weight, labels, bias, o.ignore_index, o.label_smoothing, o.z_loss);
}

/* Log-probability of each label under softmax((x weight^T + bias) / temperature), without the
 * logits in memory, as cross_entropy.
 *
 * Shapes  as cross_entropy; 0 for an ignored label
 * Units   nats; temperature is positive
 * Errors  as cross_entropy */
inline at::Tensor token_logps(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& labels,
                              const OptionalTensor& bias = std::nullopt,
                              int64_t ignore_index = -100,
                              double temperature = 1.0) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const OptionalTensor&,
                                                   int64_t,
                                                   double)>("tenon::token_logps");
  return op.call(x, weight, labels, bias, ignore_index, temperature);
}

/* (act(x gate^T) * (x up^T)) down^T.
 *
 * Shapes  x [..., D], gate and up [F, D], down [N, F]; the result is [..., N] */
inline at::Tensor gated_mlp(const at::Tensor& x,
                            const at::Tensor& gate,
                            const at::Tensor& up,
                            const at::Tensor& down,
                            c10::string_view activation = "silu") {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   c10::string_view)>("tenon::gated_mlp");
  return op.call(x, gate, up, down, activation);
}

/* A mixture of experts without dropped tokens: sum_j weights[n, j] * mlp of expert experts[n, j]
 * (x[n]), with gated_mlp of gate[i], up[i] and down[i] as the mlp of expert i.
 *
 * Shapes  x [N, D], gate and up [X, F, D], down [X, D2, F], experts [N, k] integers in [0, X),
 *         weights [N, k]; the result is [N, D2]
 * Errors  on a CPU c10::IndexError for an expert that does not exist, with its place; c10::Error
 *         for shapes or an activation that do not match
 * Source  Gale et al., MegaBlocks (MLSys 2023) */
inline at::Tensor expert_mlp(const at::Tensor& x,
                             const at::Tensor& gate,
                             const at::Tensor& up,
                             const at::Tensor& down,
                             const at::Tensor& experts,
                             const at::Tensor& weights,
                             c10::string_view activation = "silu") {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   c10::string_view)>("tenon::expert_mlp");
  return op.call(x, gate, up, down, experts, weights, activation);
}

/* Enters the divided region of a block, in which each rank of a tensor group computes with its part
 * of the parameters: TENON_BLOCK_DIVISIBLE in tenon/draft/tensor.h. All tensors that enter pass
 * here, also integers such as positions. Returns x, converted as autocast says; the gradient is the
 * sum over ranks. If ranks hold pieces of T, it gathers all positions, and the gradient is this
 * rank's piece of the sum. On one rank, it returns x.
 *
 * Shapes  x as outside of the region; with pieces [B, T of this rank, ...], and the result is [B, T,
 *         ...]
 * Errors  c10::Error, with block, rank and positions, if axis 1 does not have the rank's positions
 * Since   0.5 */
inline at::Tensor tensor_in(const at::Tensor& x) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&)>("tenon::tensor_in");
  return op.call(x);
}

/* Leaves the divided region: returns the sum of x over ranks; the gradient is the identity. Add a
 * bias of the whole output after it. If ranks hold pieces of T, it returns this rank's piece of the
 * sum. On one rank, it returns x. A hand-written backward calls tensor_out where its forward called
 * tensor_in, and the reverse.
 *
 * Shapes  x as inside of the region; with pieces [B, T, ...], and the result is [B, T of this rank,
 *         ...]
 * Errors  as tensor_in
 * Since   0.5 */
inline at::Tensor tensor_out(const at::Tensor& x) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&)>("tenon::tensor_out");
  return op.call(x);
}

/* Returns the sum of x over ranks, inside of the divided region. x is what this rank computed over
 * `mine` of `whole` elements. Each element counts once, although several ranks may have it. The
 * gradient is the same sum.
 *
 * Errors  c10::Error if x is not of floating point, or if ranks with `mine` elements each do not
 *         have all elements equally often
 * Since   0.5 */
inline at::Tensor sum_over(const at::Tensor& x, int64_t mine, int64_t whole) {
  static const auto op =
      internal::find<at::Tensor(const at::Tensor&, int64_t, int64_t)>("tenon::sum_over");
  return op.call(x, mine, whole);
}

/* Returns the maximum of x over ranks, inside of the divided region. No gradient.
 *
 * Since   0.5 */
inline at::Tensor max_over(const at::Tensor& x) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&)>("tenon::max_over");
  return op.call(x);
}

/* Returns the number of this rank in its tensor group, from 0, and the number of ranks of the
 * group, inside of the divided region; 0 and 1 outside, and on one rank. Sizes follow from shapes:
 * ask only for which part this rank has.
 *
 * Since   0.5 */
inline int64_t tensor_rank() {
  static const auto op = internal::find<int64_t()>("tenon::tensor_rank");
  return op.call();
}
inline int64_t tensor_size() {
  static const auto op = internal::find<int64_t()>("tenon::tensor_size");
  return op.call();
}

/* This rank's term of weight[ids] in the divided region, whose ranks divide the `whole` rows. Rows
 * of other ranks are 0: pass the result to tensor_out. On one rank, embedding.
 *
 * Shapes  weight [rows of this rank, D]; otherwise as embedding
 * Errors  as embedding, for an id outside [0, whole); c10::Error if ranks do not have all rows
 *         equally often
 * Since   0.5 */
inline at::Tensor embedding_over(const at::Tensor& weight, const at::Tensor& ids, int64_t whole) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&, const at::Tensor&, int64_t)>(
      "tenon::embedding_over");
  return op.call(weight, ids, whole);
}

/* cross_entropy in the divided region, whose ranks divide the `whole` classes. x has passed
 * tensor_in. The result is the same on all ranks and does not pass tensor_out. On one rank,
 * cross_entropy.
 *
 * Shapes  weight [classes of this rank, D] and bias likewise; otherwise as cross_entropy
 * Errors  as cross_entropy, for a label outside [0, whole); c10::Error if ranks do not have all
 *         classes equally often
 * Since   0.5 */
inline at::Tensor cross_entropy_over(const at::Tensor& x,
                                     const at::Tensor& weight,
                                     const at::Tensor& labels,
                                     int64_t whole,
                                     const OptionalTensor& bias = std::nullopt,
                                     const CrossEntropy& o = {}) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   int64_t,
                                                   const OptionalTensor&,
                                                   int64_t,
                                                   double,
                                                   double)>("tenon::cross_entropy_over");
  return op.call(x, weight, labels, whole, bias, o.ignore_index, o.label_smoothing, o.z_loss);
}

/* token_logps in the divided region, as cross_entropy_over.
 *
 * Since   0.5 */
inline at::Tensor token_logps_over(const at::Tensor& x,
                                   const at::Tensor& weight,
                                   const at::Tensor& labels,
                                   int64_t whole,
                                   const OptionalTensor& bias = std::nullopt,
                                   int64_t ignore_index = -100,
                                   double temperature = 1.0) {
  static const auto op = internal::find<at::Tensor(const at::Tensor&,
                                                   const at::Tensor&,
                                                   const at::Tensor&,
                                                   int64_t,
                                                   const OptionalTensor&,
                                                   int64_t,
                                                   double)>("tenon::token_logps_over");
  return op.call(x, weight, labels, whole, bias, ignore_index, temperature);
}

/* What updates of n parameters share. Lists have n tensors, in the order of the parameters. */
struct Update {
  at::TensorList parameters; /* updated in place */
  at::TensorList grads;      /* of the parameters' shapes */
  at::TensorList steps;      /* f32 scalars: number of updates, including this one */
  const at::Tensor& lr;      /* f64 scalar: the learning rate */
  OptionalTensor found_inf;  /* f32 scalar; if it is 1, nothing changes */
};

struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_decay = false; /* AdamW: the decay is multiplied by lr and not seen by the means */
};

/* Adam and AdamW, by libtorch's fused kernel. With m and v the corrected means of the gradient and
 * its square: parameter -= lr m / (sqrt(v) + eps). Autograd does not record updates.
 *
 * Shapes  exp_avgs, exp_avg_sqs and max_exp_avg_sqs (empty: no amsgrad) as the parameters
 * Errors  c10::Error for lists of other lengths
 * Source  Kingma and Ba (ICLR 2015), algorithm 1; amsgrad: Reddi, Kale, Kumar (ICLR 2018); AdamW:
 *         Loshchilov and Hutter (ICLR 2019) */
inline void adam_(const Update& u,
                  at::TensorList exp_avgs,
                  at::TensorList exp_avg_sqs,
                  at::TensorList max_exp_avg_sqs,
                  const Adam& o) {
  static const auto op = internal::find<void(at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             const at::Tensor&,
                                             double,
                                             double,
                                             double,
                                             double,
                                             bool,
                                             const OptionalTensor&)>("tenon::adam_");
  op.call(u.parameters,
          u.grads,
          exp_avgs,
          exp_avg_sqs,
          max_exp_avg_sqs,
          u.steps,
          u.lr,
          o.beta1,
          o.beta2,
          o.eps,
          o.weight_decay,
          o.decoupled_decay,
          u.found_inf);
}

struct AdamW8bit {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0; /* decoupled: multiplied by lr */
  int64_t block = 256;       /* elements that share a scale, at most 4096 */
};

/* AdamW with both means in 8 bits: a code per element, and a scale per block. An update computes in
 * fp32 or wider, and rounds the means to codes after it used them. The host's own kernels run for
 * fp32 and bf16 on a CPU, libtorch's operators otherwise.
 *
 * Shapes   codes as the parameters, uint8; scales [ceil(numel / block)] f32. Before the first
 *          update, mean_codes are 127, and all others 0
 * Errors   c10::Error for lists of other lengths, and tensors of other sizes
 * Source   Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022), in the form of
 *          torchao's AdamW8bit
 * Since    0.5 */
inline void adamw_8bit_(const Update& u,
                        at::TensorList mean_codes,
                        at::TensorList mean_scales,
                        at::TensorList square_codes,
                        at::TensorList square_scales,
                        const AdamW8bit& o) {
  static const auto op = internal::find<void(at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             const at::Tensor&,
                                             double,
                                             double,
                                             double,
                                             double,
                                             int64_t,
                                             const OptionalTensor&)>("tenon::adamw_8bit_");
  op.call(u.parameters,
          u.grads,
          mean_codes,
          mean_scales,
          square_codes,
          square_scales,
          u.steps,
          u.lr,
          o.beta1,
          o.beta2,
          o.eps,
          o.weight_decay,
          o.block,
          u.found_inf);
}

struct Adagrad {
  double lr_decay = 0.0; /* update n, from 1, divides lr by 1 + (n - 1) lr_decay */
  double eps = 1e-10;
  double weight_decay = 0.0; /* added to the gradient, times the parameter */
};

/* Adagrad, by libtorch's fused kernel: parameter -= lr g / (sqrt(sum of g^2) + eps).
 *
 * Shapes  sums as the parameters
 * Errors  c10::Error for lists of other lengths
 * Source  Duchi, Hazan, Singer (JMLR 2011) */
inline void adagrad_(const Update& u, at::TensorList sums, const Adagrad& o) {
  static const auto op = internal::find<void(at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             const at::Tensor&,
                                             double,
                                             double,
                                             double,
                                             const OptionalTensor&)>("tenon::adagrad_");
  op.call(
      u.parameters, u.grads, sums, u.steps, u.lr, o.lr_decay, o.eps, o.weight_decay, u.found_inf);
}

struct Sgd {
  double momentum = 0.0;  /* decay factor of the running sum of gradients */
  double dampening = 0.0; /* fraction of each gradient but the first kept out of the sum */
  bool nesterov = false;
  double weight_decay = 0.0; /* added to the gradient, times the parameter */
};

/* Stochastic gradient descent, by libtorch's fused kernel. For parameters narrower than fp32 on a
 * CPU and with dampening, it computes in fp32 and rounds once.
 *
 * Shapes  momentums as the parameters, zeros before the first update; empty: no momentum
 * Errors  c10::Error for lists of other lengths
 * Source  Sutskever et al. (ICML 2013), in the form that PyTorch documents */
inline void sgd_(const Update& u, at::TensorList momentums, const Sgd& o) {
  static const auto op = internal::find<void(at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             at::TensorList,
                                             const at::Tensor&,
                                             double,
                                             double,
                                             bool,
                                             double,
                                             const OptionalTensor&)>("tenon::sgd_");
  op.call(u.parameters,
          u.grads,
          momentums,
          u.steps,
          u.lr,
          o.momentum,
          o.dampening,
          o.nesterov,
          o.weight_decay,
          u.found_inf);
}

/* Whether an operator ("attention") would run the host's own kernels rather than libtorch's, for
 * tensors of this dtype and device, now. For estimates of memory. */
inline bool is_fused(c10::string_view op_name, at::ScalarType dtype, at::Device device) {
  static const auto op =
      internal::find<bool(c10::string_view, at::ScalarType, at::Device)>("tenon::is_fused");
  return op.call(op_name, dtype, device);
}

}  // namespace ops

TENON_NAMESPACE_END

#endif
