// SPDX-License-Identifier: Apache-2.0
//
// What a decoder is: sizes, choices and names. A model fills a DecoderSpec from its options;
// decoder.hpp makes the graph, the layout of weights and the costs from it. Every field has the
// value of a Llama as its default, so a model sets only what differs.
//
// A layer is two blocks, which form the unit `layers.N`:
//
//     attention      h = x + f(norm(x))
//     feed-forward   y = h + g(norm(h))
//
// A layer with a memory has a third block before them.
#ifndef TENON_DECODER_SPEC_HPP
#define TENON_DECODER_SPEC_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/decoder/rotary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

enum class NormKind {
  kRms,        /* x / sqrt(mean(x^2) + eps) * weight */
  kRmsPlusOne, /* the same with 1 + weight; weights start at 0 */
  kLayer       /* LayerNorm with weight and bias */
};

/* Where norms are. */
enum class NormPlacement {
  kPre,     /* x + f(norm(x)) */
  kPost,    /* x + norm(f(x)) */
  kBoth,    /* x + norm(f(norm(x))) */
  kParallel /* x + f(norm(x)) + g(norm(x)), with one norm */
};

/* Norms of queries and keys, before the rotation. */
enum class QueryKeyNorm {
  kNone,
  kHead, /* of each head, [E] */
  kWidth /* of all heads together, [H E] and [K E] */
};

/* Attention with low-rank keys and values. A head of a query or key is `plain` features, then
 * `rotated` ones; all heads share the rotated part of a key.
 *
 * Source   DeepSeek-AI, DeepSeek-V2 (2024), section 2.1 */
struct LatentAttention {
  int64_t query_rank = 0;   /* width of compressed queries; 0: not compressed */
  int64_t kv_rank = 0;      /* width of compressed keys and values */
  int64_t plain = 0;        /* features of a head without rotation */
  int64_t rotated = 0;      /* features of a head with rotation */
  int64_t value = 0;        /* features of a value */
  double norm_eps = 1e-6;   /* of the norms of compressed queries, keys and values */
  bool interleaved = false; /* rotated pairs are neighbors in the weights */
  bool has_bias = false;    /* of the products that compress */
};

struct DecoderAttention {
  int64_t num_heads = 0;    /* H */
  int64_t num_kv_heads = 0; /* K, a divisor of H */
  int64_t head_width = 0;   /* E */
  bool is_fused = false;    /* one parameter for queries, keys and values */
  bool qkv_bias = false;
  bool output_bias = false;
  QueryKeyNorm qk_norm = QueryKeyNorm::kNone;
  int64_t window = 0;                          /* keys that a query sees; 0: all before it */
  double softcap = 0.0;                        /* c tanh(score / c); 0: off */
  std::optional<double> scale = std::nullopt;  /* of scores; absent: 1/sqrt(E) */
  std::optional<size_t> rotary = std::nullopt; /* index in DecoderSpec::rotaries; absent: none */
  std::optional<LatentAttention> latent = std::nullopt;
};

enum class RouterScores {
  kSoftmax, /* over all experts */
  kSigmoid  /* of each expert */
};

/* A mixture of experts, without dropped tokens. */
struct DecoderExperts {
  int64_t num_experts = 0;
  int64_t per_token = 0;
  int64_t width = 0;        /* inner width of an expert */
  int64_t shared_width = 0; /* inner width of the shared expert; 0: none */
  RouterScores scores = RouterScores::kSoftmax;
  bool is_normalized = true; /* weights of a token add up to 1 before `scale` */
  double scale = 1.0;        /* factor of the weights */
  /* Experts are in `num_groups` equal groups; a token chooses among those of its best groups. */
  int64_t num_groups = 1;
  int64_t chosen_groups = 1;
  /* Set: experts are chosen by score + bias. A training step moves the bias of an expert by this
   * much toward an equal load of the step. Source: Wang et al., Auxiliary-Loss-Free Load Balancing
   * (2024) */
  std::optional<double> bias_step = std::nullopt;
  bool moves_bias() const { return bias_step.value_or(0.0) > 0.0; }
  /* Weights of auxiliary losses, spread over the layers with experts; 0: none.
   * Source: balance: Fedus et al., Switch Transformers (JMLR 2022), equation 4; z: Zoph et al.,
   * ST-MoE (2022), equation 5 */
  double balance_loss = 0.0;
  double z_loss = 0.0;
};

struct DecoderFeedForward {
  int64_t width = 0;               /* F */
  std::string activation = "silu"; /* of tenon::linear */
  bool is_gated = true;            /* (act(gate(x)) * up(x)) down; otherwise act(up(x)) down */
  bool has_bias = false;           /* only if not gated */
  std::optional<DecoderExperts> experts = std::nullopt; /* instead of the above */
};

struct DecoderLayer {
  DecoderAttention attention;
  DecoderFeedForward feed_forward;
};

/* A memory of n-grams: rows of tables, looked up by ids of the tokens that end at a position, and
 * added to the hidden state before some layers (memory.hpp). */
struct DecoderMemory {
  std::vector<std::string> columns; /* of ids, each [B, T], with a table of the same name each */
  int64_t dim = 0;                  /* width of a row */
  std::vector<int64_t> layers;      /* that read it, ascending */

  int64_t width() const { return static_cast<int64_t>(columns.size()) * dim; }
  bool is_before(size_t layer) const {
    return std::find(layers.begin(), layers.end(), static_cast<int64_t>(layer)) != layers.end();
  }
};

/* Names of parameters, and of tensors in files where they differ. Those of a layer are relative to
 * it. A parameter is a name with ".weight" or ".bias". */
struct DecoderNames {
  std::string embedding = "model.embed_tokens";
  std::string positions = "";
  std::string layers = "model.layers."; /* followed by the number of a layer and a dot */
  std::string final_norm = "model.norm";
  std::string head = "lm_head";

  std::string attention_norm = "input_layernorm";
  std::string after_attention_norm = "post_attention_layernorm"; /* kPost, kBoth */
  std::string query = "self_attn.q_proj"; /* of queries, keys and values if these are fused */
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  std::string output = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string query_down = "self_attn.q_a_proj"; /* of latent attention, to ... */
  std::string query_down_norm = "self_attn.q_a_layernorm";
  std::string query_up = "self_attn.q_b_proj";
  std::string kv_down = "self_attn.kv_a_proj_with_mqa";
  std::string kv_down_norm = "self_attn.kv_a_layernorm";
  std::string kv_up = "self_attn.kv_b_proj"; /* ... here */
  std::string joined_qkv = ""; /* tensor of files with queries, keys and values; empty: none */

  std::string feed_forward_norm = "post_attention_layernorm";
  std::string after_feed_forward_norm = "post_feedforward_layernorm"; /* kPost, kBoth */
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
  std::string joined_gate_up = ""; /* tensor of files with gate and up; empty: none */

  std::string router = "mlp.gate";
  std::string router_bias = "mlp.gate.e_score_correction_bias"; /* a buffer */
  std::string experts = "mlp.experts."; /* followed in files by the number of an expert and a dot */
  std::string expert_gate = "gate_proj";
  std::string expert_up = "up_proj";
  std::string expert_down = "down_proj";
  std::string shared = "mlp.shared_experts.";

  std::string memory_key = "memory.key_proj";
  std::string memory_value = "memory.value_proj";
  std::string memory_query_norm = "memory.query_norm";
  std::string memory_key_norm = "memory.key_norm";

  bool is_transposed = false; /* files store the matrices of layers as [in, out] */
};

struct DecoderSpec {
  int64_t vocab_size = 0;
  int64_t width = 0;         /* D */
  int64_t max_positions = 0; /* a position at or past it is an error */
  std::vector<DecoderLayer> layers;
  std::vector<RotaryTable> rotaries; /* of which each layer uses one */
  std::optional<DecoderMemory> memory = std::nullopt;

  NormKind norm = NormKind::kRms;
  double norm_eps = 1e-6;
  NormPlacement placement = NormPlacement::kPre;

  bool has_positions = false;   /* learned positions, added to embeddings */
  double embedding_scale = 1.0; /* factor of embeddings */
  bool is_tied = false;         /* the head is the embedding */
  bool head_bias = false;
  double logit_softcap = 0.0; /* c tanh(logit / c); 0: off */

  double initializer_range = 0.02;          /* standard deviation of initial matrices */
  double residual_initializer_range = 0.02; /* of those whose product is added to x */
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  double embedding_dropout = 0.0;

  DecoderNames names;
};

TENON_NAMESPACE_END

#endif
