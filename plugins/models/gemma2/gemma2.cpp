// SPDX-License-Identifier: Apache-2.0
//
// The Gemma 2 decoder: norms before and after each part, whose weights are added to 1; windows in
// every other layer; soft caps of scores and logits; scaled embeddings. Names of parameters and
// options are those of Hugging Face's Gemma2ForCausalLM.
//
// Source: Gemma Team, Gemma 2: Improving Open Language Models at a Practical Size (2024),
// section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <cmath>

class Gemma2 final : public tenon::Decoder<Gemma2> {
 public:
  static constexpr const char* kType = "gemma2";
  static constexpr const char* kSummary =
      "Gemma 2 decoder: norms on both sides, soft caps, windows in every other layer";

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 256000;
      hidden_size = 2304;
      intermediate_size = 9216;
      num_hidden_layers = 26;
      num_attention_heads = 8;
      num_key_value_heads = 4;
      head_dim = 256;
      max_position_embeddings = 8192;
      tie_word_embeddings = true;
      sliding_window = 4096;
    }
    int64_t query_pre_attn_scalar = 256;
    std::optional<double> attn_logit_softcapping = 50.0;
    std::optional<double> final_logit_softcapping = 30.0;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_sliding_window(b);
    tenon::bind_size(b,
                     "query_pre_attn_scalar",
                     &Options::query_pre_attn_scalar,
                     "scores of the attention are divided by the square root of this");
    b.field("attn_logit_softcapping", &Options::attn_logit_softcapping)
        .exclusive_min(0)
        .doc("soft cap of the attention's scores; null: none");
    b.field("final_logit_softcapping", &Options::final_logit_softcapping)
        .exclusive_min(0)
        .doc("soft cap of the logits; null: none");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.norm = tenon::NormKind::kRmsPlusOne;
    s.placement = tenon::NormPlacement::kBoth;
    s.names.feed_forward_norm = "pre_feedforward_layernorm";
    s.embedding_scale = std::sqrt(static_cast<double>(o.hidden_size));
    s.logit_softcap = o.final_logit_softcapping.value_or(0.0);
    for (size_t i = 0; i < s.layers.size(); ++i) {
      tenon::DecoderAttention& a = s.layers[i].attention;
      a.scale = 1.0 / std::sqrt(static_cast<double>(o.query_pre_attn_scalar));
      a.softcap = o.attn_logit_softcapping.value_or(0.0);
      a.window = i % 2 == 0 ? a.window : 0;
      s.layers[i].feed_forward.activation = "gelu_tanh";
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("gemma2", "Gemma2ForCausalLM");
    o.list_keys(c, Options());
    c.key("head_dim", o.head_width(), 256);
    c.fixed("hidden_activation", "gelu_pytorch_tanh");
    c.key("attention_bias", o.attention_bias, false);
    c.key("query_pre_attn_scalar", o.query_pre_attn_scalar, 256);
    c.key("sliding_window", o.sliding_window, 4096);
    if (o.sliding_window.has_value()) {
      c.optional("layer_types", tenon::layer_types(s));
    }
    c.key("attn_logit_softcapping", o.attn_logit_softcapping, 50.0);
    c.key("final_logit_softcapping", o.final_logit_softcapping, 30.0);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Gemma2)
