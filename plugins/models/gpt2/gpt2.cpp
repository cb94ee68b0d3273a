// SPDX-License-Identifier: Apache-2.0
//
// The GPT-2 decoder: LayerNorm, learned positions, biases. Names of parameters and options are
// those of Hugging Face's GPT2LMHeadModel, whose files store matrices as [in, out].
//
// Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019), section 2.3.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <cmath>

class Gpt2 final : public tenon::Decoder<Gpt2> {
 public:
  static constexpr const char* kType = "gpt2";
  static constexpr const char* kSummary = "GPT-2 decoder: LayerNorm, learned positions, GELU";

  struct Options {
    int64_t vocab_size = 50257;
    int64_t n_positions = 1024;
    int64_t n_embd = 768;
    int64_t n_layer = 12;
    int64_t n_head = 12;
    std::optional<int64_t> n_inner;
    double layer_norm_epsilon = 1e-5;
    double initializer_range = 0.02;
    double embd_pdrop = 0.1;
    double attn_pdrop = 0.1;
    double resid_pdrop = 0.1;
    bool tie_word_embeddings = true;

    int64_t inner() const { return n_inner.value_or(4 * n_embd); }
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    const auto size = [&b](const char* name, auto member, const char* doc) {
      tenon::bind_size(b, name, member, doc);
    };
    size("vocab_size", &Options::vocab_size, "vocabulary size; ids are in [0, vocab_size)");
    size("n_positions", &Options::n_positions, "maximum sequence length");
    size("n_embd", &Options::n_embd, "hidden dimension of the model, a multiple of n_head");
    b.field("n_layer", &Options::n_layer)
        .min(1)
        .max(tenon::kMaxDecoderLayers)
        .doc("number of layers");
    size("n_head", &Options::n_head, "number of attention heads");
    size("n_inner", &Options::n_inner, "hidden dimension of feed-forward layers; null: 4 n_embd");
    b.field("layer_norm_epsilon", &Options::layer_norm_epsilon)
        .min(0)
        .doc("added to the variance for numerical stability");
    b.field("initializer_range", &Options::initializer_range)
        .min(0)
        .doc("standard deviation of initial matrix values");
    const auto drop = [&b](const char* name, double Options::*member, const char* doc) {
      tenon::bind_dropout(b, name, member, doc);
    };
    drop("embd_pdrop", &Options::embd_pdrop, "dropout probability of embeddings, in training");
    drop("attn_pdrop", &Options::attn_pdrop, "dropout probability of attention weights");
    drop("resid_pdrop", &Options::resid_pdrop, "dropout probability of residual branches");
    b.field("tie_word_embeddings", &Options::tie_word_embeddings)
        .doc("share weights between embedding and output head");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    TENON_CHECK(o.n_embd % o.n_head == 0, "n_head ", o.n_head, " must divide n_embd ", o.n_embd);
    tenon::DecoderSpec s;
    s.vocab_size = o.vocab_size;
    s.width = o.n_embd;
    s.max_positions = o.n_positions;
    s.norm = tenon::NormKind::kLayer;
    s.norm_eps = o.layer_norm_epsilon;
    s.has_positions = true;
    s.is_tied = o.tie_word_embeddings;
    s.initializer_range = o.initializer_range;
    s.residual_initializer_range =
        o.initializer_range / std::sqrt(2.0 * static_cast<double>(o.n_layer));
    s.embedding_dropout = o.embd_pdrop;
    s.attention_dropout = o.attn_pdrop;
    s.residual_dropout = o.resid_pdrop;
    tenon::DecoderNames& n = s.names;
    n.embedding = "transformer.wte";
    n.positions = "transformer.wpe";
    n.layers = "transformer.h.";
    n.final_norm = "transformer.ln_f";
    n.attention_norm = "ln_1";
    n.query = "attn.c_attn";
    n.output = "attn.c_proj";
    n.feed_forward_norm = "ln_2";
    n.up = "mlp.c_fc";
    n.down = "mlp.c_proj";
    n.is_transposed = true;
    tenon::DecoderLayer layer;
    layer.attention.num_heads = o.n_head;
    layer.attention.num_kv_heads = o.n_head;
    layer.attention.head_width = o.n_embd / o.n_head;
    layer.attention.is_fused = true;
    layer.attention.qkv_bias = true;
    layer.attention.output_bias = true;
    layer.feed_forward.width = o.inner();
    layer.feed_forward.activation = "gelu_tanh";
    layer.feed_forward.is_gated = false;
    layer.feed_forward.has_bias = true;
    s.layers.assign(static_cast<size_t>(o.n_layer), layer);
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& /*spec*/) {
    tenon::HfConfig c("gpt2", "GPT2LMHeadModel");
    c.key("vocab_size", o.vocab_size, 50257);
    c.note("n_positions", o.n_positions);
    c.key("n_embd", o.n_embd, 768);
    c.key("n_layer", o.n_layer, 12);
    c.key("n_head", o.n_head, 12);
    c.key("n_inner", o.inner(), 4 * o.n_embd);
    c.fixed("activation_function", "gelu_new");
    c.key("layer_norm_epsilon", o.layer_norm_epsilon, 1e-5);
    c.key("tie_word_embeddings", o.tie_word_embeddings, true);
    c.fixed("scale_attn_weights", true);
    c.fixed("scale_attn_by_inverse_layer_idx", false);
    c.fixed("add_cross_attention", false);
    c.note("initializer_range", o.initializer_range);
    c.note("embd_pdrop", o.embd_pdrop);
    c.note("attn_pdrop", o.attn_pdrop);
    c.note("resid_pdrop", o.resid_pdrop);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Gpt2)
