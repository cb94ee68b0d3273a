// SPDX-License-Identifier: Apache-2.0
//
// The Phi decoder, versions 1 to 2: attention and feed-forward side by side after one LayerNorm,
// biases, and a partial rotation of heads. Names of parameters and options are those of Hugging
// Face's PhiForCausalLM.
//
// Source: Li et al., Textbooks Are All You Need II: phi-1.5 technical report (2023), section 2.1.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Phi final : public tenon::Decoder<Phi> {
 public:
  static constexpr const char* kType = "phi";
  static constexpr const char* kSummary =
      "Phi decoder: parallel attention and feed-forward, LayerNorm, partial rotation";

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 51200;
      hidden_size = 2048;
      intermediate_size = 8192;
      num_hidden_layers = 24;
      norm_eps = 1e-5;
    }
    double partial_rotary_factor = 0.5;
    bool qk_layernorm = false;
    double resid_pdrop = 0.0;
    double embd_pdrop = 0.0;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b, "layer_norm_eps");
    tenon::bind_rope(b);
    b.field("partial_rotary_factor", &Options::partial_rotary_factor)
        .exclusive_min(0)
        .max(1)
        .doc("part of each head that is rotated");
    b.field("qk_layernorm", &Options::qk_layernorm).doc("LayerNorm of queries and keys");
    tenon::bind_attention_dropout(b);
    tenon::bind_dropout(
        b, "resid_pdrop", &Options::resid_pdrop, "dropout probability of residual branches");
    tenon::bind_dropout(b, "embd_pdrop", &Options::embd_pdrop, "dropout probability of embeddings");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    const auto width = static_cast<double>(o.hidden_size / o.num_attention_heads);
    tenon::DecoderSpec s =
        o.DecoderOptions::spec(static_cast<int64_t>(width * o.partial_rotary_factor));
    s.norm = tenon::NormKind::kLayer;
    s.placement = tenon::NormPlacement::kParallel;
    s.head_bias = true;
    s.residual_dropout = o.resid_pdrop;
    s.embedding_dropout = o.embd_pdrop;
    s.names.final_norm = "model.final_layernorm";
    s.names.output = "self_attn.dense";
    s.names.query_norm = "self_attn.q_layernorm";
    s.names.key_norm = "self_attn.k_layernorm";
    s.names.up = "mlp.fc1";
    s.names.down = "mlp.fc2";
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.attention.qkv_bias = true;
      layer.attention.output_bias = true;
      layer.attention.qk_norm =
          o.qk_layernorm ? tenon::QueryKeyNorm::kHead : tenon::QueryKeyNorm::kNone;
      layer.feed_forward.activation = "gelu_tanh";
      layer.feed_forward.is_gated = false;
      layer.feed_forward.has_bias = true;
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("phi", "PhiForCausalLM");
    o.list_keys(c, Options(), "layer_norm_eps");
    c.fixed("hidden_act", "gelu_new");
    c.key("qk_layernorm", o.qk_layernorm, false);
    c.note("resid_pdrop", o.resid_pdrop);
    c.note("embd_pdrop", o.embd_pdrop);
    c.rope(s.rotaries[0], 10000.0, o.partial_rotary_factor, 0.5);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Phi)
