// SPDX-License-Identifier: Apache-2.0
//
// Options that most decoders share, with the names of Hugging Face's `config.json`. A model derives
// its options from DecoderOptions, sets other defaults in its constructor, and adds its own fields:
//
//     struct Options : tenon::DecoderOptions {
//       Options() { norm_eps = 1e-5; }
//       std::optional<int64_t> sliding_window;
//     };
//     static void bind(tenon::OptionBinder<Options>& b) {
//       tenon::bind_decoder(b);
//       tenon::bind_rope(b);
//       b.field("sliding_window", &Options::sliding_window).min(1).doc("...");
//     }
#ifndef TENON_DECODER_OPTIONS_HPP
#define TENON_DECODER_OPTIONS_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>
#include <tenon/decoder/hf_config.hpp>
#include <tenon/decoder/rotary.hpp>
#include <tenon/decoder/spec.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Upper limits of options that size a decoder: far above existing models, and low enough that sizes
 * are computed without overflow. */
constexpr double kMaxDecoderWidth = 1 << 28;
constexpr double kMaxDecoderLayers = 10'000;
constexpr double kMaxDecoderPositions = 1 << 28;

/* A memory of n-grams; see DecoderMemory. */
struct MemoryOptions {
  std::vector<std::string> columns;
  int64_t dim = 32;
  std::vector<int64_t> layers = {1};

  static void bind(OptionBinder<MemoryOptions>& b) {
    b.field("columns", &MemoryOptions::columns)
        .required()
        .non_empty()
        .min_items(1)
        .max_items(64)
        .doc("columns of ids [B, T], made by the feature `ngram`; each has a table of its name");
    b.field("dim", &MemoryOptions::dim).min(1).max(65536).doc("width of a row");
    b.field("layers", &MemoryOptions::layers)
        .min(0)
        .max(kMaxDecoderLayers)
        .min_items(1)
        .doc("layers whose input the memory is added to, counted from 0; they share the rows");
  }

  /* Errors   TENON_INVALID for a layer that does not exist, and a column or layer listed twice */
  DecoderMemory spec(int64_t num_layers) const {
    DecoderMemory m{columns, dim, layers};
    std::sort(m.layers.begin(), m.layers.end());
    TENON_CHECK(m.layers.back() < num_layers,
                "memory.layers has the layer ",
                m.layers.back(),
                ", but num_hidden_layers is ",
                num_layers);
    TENON_CHECK(std::adjacent_find(m.layers.begin(), m.layers.end()) == m.layers.end(),
                "memory.layers has a layer twice");
    std::vector<std::string> names = columns;
    std::sort(names.begin(), names.end());
    TENON_CHECK(std::adjacent_find(names.begin(), names.end()) == names.end(),
                "memory.columns has a column twice");
    return m;
  }
};

struct DecoderOptions {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads;
  std::optional<int64_t> head_dim;
  int64_t max_position_embeddings = 2048;
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  double attention_dropout = 0.0;
  bool attention_bias = false;
  std::optional<int64_t> sliding_window;
  std::optional<MemoryOptions> memory;

  int64_t kv_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }

  /* The spec of a Llama of these sizes, with one rotary table and equal layers. `rotated` is the
   * rotated part of a head; 0: all of it.
   *
   * Errors   TENON_INVALID, naming the options, for heads that do not divide */
  DecoderSpec spec(int64_t rotated = 0) const {
    TENON_CHECK(head_dim.has_value() || hidden_size % num_attention_heads == 0,
                "hidden_size ",
                hidden_size,
                " over num_attention_heads ",
                num_attention_heads,
                " is not an integer; change one of them, or set head_dim if the model has it");
    TENON_CHECK(num_attention_heads % kv_heads() == 0,
                "num_key_value_heads ",
                kv_heads(),
                " must divide num_attention_heads ",
                num_attention_heads);
    if (rotated == 0) {
      TENON_CHECK(head_width() % 2 == 0,
                  "hidden_size ",
                  hidden_size,
                  " over num_attention_heads ",
                  num_attention_heads,
                  " gives heads of width ",
                  head_width(),
                  ", which must be even for rotary positions");
    }
    DecoderSpec s;
    s.vocab_size = vocab_size;
    s.width = hidden_size;
    s.max_positions = max_position_embeddings;
    s.norm_eps = norm_eps;
    s.is_tied = tie_word_embeddings;
    s.initializer_range = initializer_range;
    s.residual_initializer_range = initializer_range;
    s.attention_dropout = attention_dropout;
    s.rotaries = {RotaryTable{
        rotated == 0 ? head_width() : rotated, max_position_embeddings, rope_theta, rope_scaling}};
    DecoderLayer layer;
    layer.attention.num_heads = num_attention_heads;
    layer.attention.num_kv_heads = kv_heads();
    layer.attention.head_width = head_width();
    layer.attention.qkv_bias = attention_bias;
    layer.attention.output_bias = attention_bias;
    layer.attention.rotary = 0;
    layer.attention.window = sliding_window.value_or(0);
    layer.feed_forward.width = intermediate_size;
    s.layers.assign(static_cast<size_t>(num_hidden_layers), layer);
    if (memory.has_value()) {
      s.memory = memory->spec(num_hidden_layers);
    }
    return s;
  }

  /* The keys of a config.json that stand for these options, except for the rotary table.
   * `defaults` are the options that transformers takes for keys that a file lacks; `eps` is the key
   * of the norms' constant. */
  void list_keys(HfConfig& c,
                 const DecoderOptions& defaults,
                 const std::string& eps = "rms_norm_eps") const {
    c.key("vocab_size", vocab_size, defaults.vocab_size);
    c.key("hidden_size", hidden_size, defaults.hidden_size);
    c.key("intermediate_size", intermediate_size, defaults.intermediate_size);
    c.key("num_hidden_layers", num_hidden_layers, defaults.num_hidden_layers);
    c.key("num_attention_heads", num_attention_heads, defaults.num_attention_heads);
    c.key("num_key_value_heads",
          kv_heads(),
          defaults.num_key_value_heads.value_or(num_attention_heads));
    c.note("max_position_embeddings", max_position_embeddings);
    c.key(eps, norm_eps, defaults.norm_eps);
    c.key("tie_word_embeddings", tie_word_embeddings, defaults.tie_word_embeddings);
    c.note("initializer_range", initializer_range);
    c.note("attention_dropout", attention_dropout);
  }
};

/* Binds sizes, norm, initialization and memory of DecoderOptions. `eps` is the name of the option
 * for the norms' constant. */
template <class O>
void bind_decoder(OptionBinder<O>& b, const char* eps = "rms_norm_eps") {
  b.field("vocab_size", &O::vocab_size)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc("vocabulary size; ids are in [0, vocab_size)");
  b.field("hidden_size", &O::hidden_size)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc("hidden dimension of the model");
  b.field("intermediate_size", &O::intermediate_size)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc("hidden dimension of the feed-forward layers");
  b.field("num_hidden_layers", &O::num_hidden_layers)
      .min(1)
      .max(kMaxDecoderLayers)
      .doc("number of layers");
  b.field("num_attention_heads", &O::num_attention_heads)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc("number of query heads");
  b.field("num_key_value_heads", &O::num_key_value_heads)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc(
          "number of key and value heads, a divisor of num_attention_heads; null: "
          "num_attention_heads");
  b.field("max_position_embeddings", &O::max_position_embeddings)
      .min(1)
      .max(kMaxDecoderPositions)
      .doc("maximum sequence length; positions at or past it are an error");
  b.field(eps, &O::norm_eps)
      .min(0)
      .doc("added to the mean square or variance for numerical stability");
  b.field("tie_word_embeddings", &O::tie_word_embeddings)
      .doc("share weights between embedding and output head");
  b.field("initializer_range", &O::initializer_range)
      .min(0)
      .doc("standard deviation of initial matrix values");
  b.field("memory", &O::memory).doc("rows of n-grams, added to the hidden state; null: none");
}

/* Binds `head_dim`. */
template <class O>
void bind_head_dim(OptionBinder<O>& b) {
  b.field("head_dim", &O::head_dim)
      .min(1)
      .max(kMaxDecoderWidth)
      .doc("width of a head; null: hidden_size / num_attention_heads");
}

/* Binds `rope_theta` and `rope_scaling`. */
template <class O>
void bind_rope(OptionBinder<O>& b) {
  b.field("rope_theta", &O::rope_theta).exclusive_min(0).doc("base of the rotary frequencies");
  b.field("rope_scaling", &O::rope_scaling)
      .doc("rotary scaling for sequences longer than in pretraining; null: none");
}

/* Binds a probability of dropout, in [0, 1). */
template <class O, class Member>
OptionField& bind_dropout(OptionBinder<O>& b, const char* name, Member member, const char* doc) {
  return b.field(name, member).min(0).exclusive_max(1).doc(doc);
}

/* Binds `attention_dropout`. */
template <class O>
void bind_attention_dropout(OptionBinder<O>& b) {
  bind_dropout(b,
               "attention_dropout",
               &O::attention_dropout,
               "dropout probability of attention weights, in training");
}

/* Binds `attention_bias`. */
template <class O>
void bind_attention_bias(OptionBinder<O>& b) {
  b.field("attention_bias", &O::attention_bias)
      .doc("biases of the attention's queries, keys, values and output");
}

/* Binds `sliding_window`. */
template <class O>
void bind_sliding_window(OptionBinder<O>& b) {
  b.field("sliding_window", &O::sliding_window)
      .min(1)
      .max(kMaxDecoderPositions)
      .doc("a position attends to at most this many positions, itself included; null: all");
}

/* Options of models with experts. */
struct ExpertOptions : DecoderOptions {
  int64_t moe_intermediate_size = 1408;
  int64_t num_experts_per_tok = 2;
  bool norm_topk_prob = true;
  double router_aux_loss_coef = 0.001;
  double router_z_loss_coef = 0.0;

  /* The experts of a layer, chosen by softmax. */
  DecoderExperts experts(int64_t num_experts) const {
    DecoderExperts e;
    e.num_experts = num_experts;
    e.per_token = num_experts_per_tok;
    e.width = moe_intermediate_size;
    e.is_normalized = norm_topk_prob;
    e.balance_loss = router_aux_loss_coef;
    e.z_loss = router_z_loss_coef;
    return e;
  }
};

/* Binds an integer from 1 on. */
template <class O, class Member>
OptionField& bind_size(OptionBinder<O>& b, const char* name, Member member, const char* doc) {
  return b.field(name, member).min(1).max(kMaxDecoderWidth).doc(doc);
}

/* Binds `num_experts_per_tok` and the weights of auxiliary losses. */
template <class O>
void bind_router(OptionBinder<O>& b) {
  bind_size(
      b, "num_experts_per_tok", &O::num_experts_per_tok, "number of chosen experts of a token");
  b.field("router_aux_loss_coef", &O::router_aux_loss_coef)
      .min(0)
      .doc(
          "weight of the loss that balances the experts of a step, the mean over layers; 0: none. "
          "Several microbatches run forward twice");
  b.field("router_z_loss_coef", &O::router_z_loss_coef)
      .min(0)
      .doc("weight of the loss that keeps router logits small, the mean over layers; 0: none");
}

/* Binds all of ExpertOptions. */
template <class O>
void bind_experts(OptionBinder<O>& b) {
  bind_size(b, "moe_intermediate_size", &O::moe_intermediate_size, "hidden dimension of an expert");
  b.field("norm_topk_prob", &O::norm_topk_prob)
      .doc("whether the weights of a token's experts are divided by their sum");
  bind_router(b);
}

/* The kind of each layer, as `layer_types` of config.json names it. */
inline std::vector<std::string> layer_types(const DecoderSpec& spec) {
  std::vector<std::string> types;
  for (const DecoderLayer& layer : spec.layers) {
    types.emplace_back(layer.attention.window > 0 ? "sliding_attention" : "full_attention");
  }
  return types;
}

/* Options of models of which only upper layers may have a window. */
struct UpperWindowOptions : DecoderOptions {
  bool use_sliding_window = false;
  int64_t max_window_layers = 28;

  /* Removes the windows of layers that have none. */
  void limit_windows(DecoderSpec& spec) const {
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      if (!use_sliding_window || static_cast<int64_t>(i) < max_window_layers) {
        spec.layers[i].attention.window = 0;
      }
    }
  }
  void list_window_keys(HfConfig& c, const DecoderSpec& spec) const {
    c.key("use_sliding_window", use_sliding_window, false);
    if (use_sliding_window) {
      c.key("sliding_window", sliding_window, 4096);
    } else {
      c.note("sliding_window", sliding_window);
    }
    c.optional("layer_types", layer_types(spec));
    c.note("max_window_layers", max_window_layers);
  }
};

/* Binds the windows of UpperWindowOptions. */
template <class O>
void bind_upper_windows(OptionBinder<O>& b) {
  b.field("use_sliding_window", &O::use_sliding_window)
      .doc("limit the attention of layers from max_window_layers on");
  bind_sliding_window(b);
  b.field("max_window_layers", &O::max_window_layers)
      .min(0)
      .max(kMaxDecoderLayers)
      .doc("number of the first layer with a window");
}

TENON_NAMESPACE_END

#endif
