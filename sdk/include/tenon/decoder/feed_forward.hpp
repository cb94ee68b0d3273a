// SPDX-License-Identifier: Apache-2.0
//
// The feed-forward block of a layer: parameters and forward, dense or as a mixture of experts.
//
// Tensor ranks divide the inner width, also that of each expert. The norm and the router are
// outside of the divided region, so that all ranks choose the same experts.
//
// Letters in tensor names: B samples, T positions, D width, N tokens (B T), X experts, k experts of
// a token.
#ifndef TENON_DECODER_FEED_FORWARD_HPP
#define TENON_DECODER_FEED_FORWARD_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/attention.hpp>
#include <tenon/decoder/parameters.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Declares the parameters of the block, in the order in which `run_feed_forward` reads them.
 * `shared_norm` is the norm that a parallel block shares with the attention block. */
inline void declare_feed_forward(DecoderParameters& p,
                                 const DecoderSpec& s,
                                 const DecoderLayer& l,
                                 const std::vector<ParameterId>& shared_norm) {
  const DecoderFeedForward& f = l.feed_forward;
  const DecoderNames& n = s.names;
  const int64_t D = s.width;
  const double deviation = s.initializer_range;
  const double last = s.residual_initializer_range;
  if (s.placement == NormPlacement::kParallel) {
    for (const ParameterId id : shared_norm) {
      p.reuse(id);
    }
  } else if (has_norm_before(s)) {
    p.norm(n.feed_forward_norm, D, s.norm);
  }
  if (f.experts.has_value()) {
    const DecoderExperts& e = *f.experts;
    DecoderMatrix router{e.num_experts, D, 0, 0, deviation};
    router.flags = 0;  // the router's product is small, and stays exact
    p.matrix(n.router, router);
    p.expert_matrix(n.experts, n.expert_gate, e.num_experts, e.width, D, 0, deviation);
    p.expert_matrix(n.experts, n.expert_up, e.num_experts, e.width, D, 0, deviation);
    p.expert_matrix(n.experts, n.expert_down, e.num_experts, D, e.width, 1, last);
    if (e.shared_width > 0) {
      p.matrix(n.shared + "gate_proj", {e.shared_width, D, 0, e.shared_width, deviation});
      p.matrix(n.shared + "up_proj", {e.shared_width, D, 0, e.shared_width, deviation});
      p.matrix(n.shared + "down_proj", {D, e.shared_width, 1, e.shared_width, last});
    }
  } else {
    if (f.is_gated) {
      const int64_t after_gate = n.joined_gate_up.empty() ? 0 : f.width;
      p.matrix(n.gate, {f.width, D, 0, f.width, deviation, n.joined_gate_up, 0});
      p.matrix(n.up, {f.width, D, 0, f.width, deviation, n.joined_gate_up, after_gate});
    } else {
      p.matrix(n.up, {f.width, D, 0, f.width, deviation});
      if (f.has_bias) {
        p.bias(n.up, f.width, f.width);
      }
    }
    p.matrix(n.down, {D, f.width, 1, f.width, last});
    if (f.has_bias && !f.is_gated) {
      p.bias(n.down, D, 0);
    }
  }
  if (has_norm_after(s)) {
    p.norm(n.after_feed_forward_norm, D, s.norm);
  }
}

/* Which experts each token has, and their weights. */
struct Routing {
  at::Tensor experts_Nk;
  at::Tensor weights_Nk;
};

/* Chooses experts by `choice` [N, X], and weighs them by `scores` [N, X].
 *
 * Source   groups: DeepSeek-AI, DeepSeek-V3 (2024), section 2.1.2 */
inline Routing route(const DecoderExperts& e,
                     const at::Tensor& scores_NX,
                     const at::Tensor& choice_NX) {
  at::Tensor choice = choice_NX.detach();
  if (e.num_groups > 1) {
    const int64_t in_group = e.num_experts / e.num_groups;
    const at::Tensor by_group = choice.unflatten(1, {e.num_groups, in_group});
    const at::Tensor best = std::get<0>(by_group.topk(std::min<int64_t>(2, in_group), -1)).sum(-1);
    const at::Tensor chosen = std::get<1>(best.topk(e.chosen_groups, -1));
    const at::Tensor is_out =
        at::ones_like(best, best.options().dtype(at::kBool)).scatter(1, chosen, false);
    choice = by_group.masked_fill(is_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
                 .flatten(1);
  }
  Routing r;
  r.experts_Nk = std::get<1>(choice.topk(e.per_token, -1));
  r.weights_Nk = scores_NX.gather(1, r.experts_Nk);
  if (e.is_normalized) {
    r.weights_Nk = r.weights_Nk / (r.weights_Nk.sum(-1, true) + 1e-20);
  }
  if (e.scale != 1.0) {
    r.weights_Nk = r.weights_Nk * e.scale;
  }
  return r;
}

namespace internal {

/* Number of tokens of each expert, [X] i64. */
inline at::Tensor expert_loads(const at::Tensor& experts_Nk, int64_t num_experts) {
  const at::Tensor flat = experts_Nk.reshape({-1});
  return at::zeros({num_experts}, flat.options()).scatter_add(0, flat, at::ones_like(flat));
}

/* tensor_in without the conversion of autocast. */
inline at::Tensor entered_exactly(const at::Tensor& x) {
  const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
  return ops::tensor_in(x);
}

inline void add_router_losses(const BlockCall& b,
                              const DecoderSpec& s,
                              size_t layer,
                              const at::Tensor& logits_NX,
                              const at::Tensor& scores_NX,
                              const at::Tensor& loads_X) {
  const DecoderExperts& e = *s.layers[layer].feed_forward.experts;
  double num_layers = 0;
  for (const DecoderLayer& l : s.layers) {
    num_layers += l.feed_forward.experts.has_value() ? 1 : 0;
  }
  const std::string name = "layers." + std::to_string(layer);
  const int64_t N = logits_NX.size(0);
  if (e.balance_loss > 0.0) {
    const at::Tensor shares =
        e.scores == RouterScores::kSigmoid ? scores_NX / scores_NX.sum(-1, true) : scores_NX;
    const double weight = e.balance_loss / num_layers;
    b.add_balance_loss((name + ".balance").c_str(), shares.sum(0), loads_X, N, weight);
  }
  if (e.z_loss > 0.0) {
    const at::Tensor sum = at::logsumexp(logits_NX, {-1}).square().sum();
    const at::Tensor count = at::full({}, N, sum.options().requires_grad(false));
    b.add_loss((name + ".router_z").c_str(), sum, count, e.z_loss / num_layers);
  }
}

template <class Call>
at::Tensor run_experts(const Call& b,
                       ParameterCursor& p,
                       const DecoderSpec& s,
                       size_t layer,
                       const at::Tensor& x_BTD) {
  const DecoderExperts& e = *s.layers[layer].feed_forward.experts;
  const at::Tensor x_ND = x_BTD.reshape({-1, x_BTD.size(2)});
  at::Tensor logits_NX = ops::linear(x_ND, {p.take()});
  if (logits_NX.scalar_type() != at::kDouble) {
    logits_NX = logits_NX.to(at::kFloat);
  }
  const at::Tensor scores_NX =
      e.scores == RouterScores::kSigmoid ? at::sigmoid(logits_NX) : at::softmax(logits_NX, -1);
  const bool has_bias = e.bias_step.has_value();
  const at::Tensor choice_NX =
      has_bias ? scores_NX + b.buffer(0).to(scores_NX.scalar_type()) : scores_NX;
  const Routing r = route(e, scores_NX, choice_NX);
  if constexpr (std::is_same_v<Call, BlockCall>) {
    at::Tensor loads_X;
    if (b.is_train() && (e.moves_bias() || e.balance_loss > 0.0)) {
      const at::NoGradGuard no_grad;
      loads_X = expert_loads(r.experts_Nk, e.num_experts);
    }
    if (e.moves_bias() && b.is_train()) {
      b.set_next_buffer(1, loads_X);
    }
    if (b.is_train()) {
      add_router_losses(b, s, layer, logits_NX, scores_NX, loads_X);
    }
  }
  const at::Tensor& gate = p.take();
  const at::Tensor& up = p.take();
  const at::Tensor& down = p.take();
  const at::Tensor h_BTD = ops::tensor_in(x_BTD);
  const at::IntArrayRef rows = x_BTD.sizes().slice(0, 2);
  const at::Tensor weights_Nk =
      entered_exactly(r.weights_Nk.to(x_ND.scalar_type()).unflatten(0, rows)).flatten(0, 1);
  const at::Tensor experts_Nk = ops::tensor_in(r.experts_Nk.unflatten(0, rows)).flatten(0, 1);
  at::Tensor y = ops::expert_mlp(h_BTD.flatten(0, 1), gate, up, down, experts_Nk, weights_Nk)
                     .view(h_BTD.sizes());
  if (e.shared_width > 0) {
    const at::Tensor& shared_gate = p.take();
    const at::Tensor& shared_up = p.take();
    y = y + ops::gated_mlp(h_BTD, shared_gate, shared_up, p.take());
  }
  return ops::tensor_out(y);
}

}  // namespace internal

/* Moves the bias of each expert toward an equal load, by the loads of a step. Buffers: the bias
 * [X], the loads [X].
 *
 * Source   Wang et al., Auxiliary-Loss-Free Load Balancing (2024), algorithm 1 */
inline void move_expert_bias(const EndStepCall& b, const DecoderExperts& e) {
  const at::Tensor& loads = b.buffer(1);
  const at::Tensor direction = at::sign(loads.sum() - loads * e.num_experts);
  b.set_next_buffer(0, b.buffer(0) + direction.to(b.buffer(0).scalar_type()) * *e.bias_step);
}

/* Runs the block: h to h + g(norm(h)); in a parallel layer, h and x to h + g(norm(x)). `Call` is a
 * BlockCall, or a GenerationCall, for which auxiliary losses and dropout are off.
 *
 * Shapes   inputs: h [B, T, D], and x [B, T, D] in a parallel layer; buffer 0: the bias of experts,
 *          if they have one; the result is [B, T, D] */
template <class Call>
at::Tensor run_feed_forward(const Call& b, const DecoderSpec& s, size_t layer) {
  const DecoderFeedForward& f = s.layers[layer].feed_forward;
  const at::Tensor& h_BTD = b.input(0);
  const at::Tensor& x_BTD = s.placement == NormPlacement::kParallel ? b.input(1) : h_BTD;
  ParameterCursor p(b);
  const at::Tensor normed = internal::normed_before(p, s, x_BTD);
  at::Tensor y;
  if (f.experts.has_value()) {
    y = internal::run_experts(b, p, s, layer, normed);
  } else if (f.is_gated) {
    const at::Tensor& gate = p.take();
    const at::Tensor& up = p.take();
    y = ops::tensor_out(ops::gated_mlp(ops::tensor_in(normed), gate, up, p.take(), f.activation));
  } else {
    const at::Tensor& up = p.take();
    const at::Tensor fed =
        ops::linear(ops::tensor_in(normed), {up}, p.take_if(f.has_bias), f.activation);
    const at::Tensor& down = p.take();
    y = internal::linear_out(fed, down, p.take_if(f.has_bias), f.width);
  }
  if constexpr (std::is_same_v<Call, BlockCall>) {
    y = dropped(b, y, s.residual_dropout);
  }
  return h_BTD + internal::normed_after(p, s, y);
}

TENON_NAMESPACE_END

#endif
