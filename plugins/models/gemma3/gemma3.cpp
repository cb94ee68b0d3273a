// SPDX-License-Identifier: Apache-2.0
//
// The text decoder of Gemma 3: as Gemma 2, with norms of queries and keys instead of soft caps, and
// two rotary tables, for layers with and without a window. Names of parameters and options are
// those of Hugging Face's Gemma3ForCausalLM.
//
// Source: Gemma Team, Gemma 3 Technical Report (2025), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <cmath>

class Gemma3 final : public tenon::Decoder<Gemma3> {
 public:
  static constexpr const char* kType = "gemma3";
  static constexpr const char* kSummary =
      "Gemma 3 text decoder: norms of queries and keys, local and global layers";

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 262208;
      hidden_size = 2304;
      intermediate_size = 9216;
      num_hidden_layers = 26;
      num_attention_heads = 8;
      num_key_value_heads = 4;
      head_dim = 256;
      max_position_embeddings = 131072;
      rope_theta = 1000000.0;
      tie_word_embeddings = true;
      sliding_window = 4096;
    }
    double rope_local_base_freq = 10000.0;
    int64_t sliding_window_pattern = 6;
    int64_t query_pre_attn_scalar = 256;
    std::optional<double> final_logit_softcapping;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    b.field("rope_local_base_freq", &Options::rope_local_base_freq)
        .exclusive_min(0)
        .doc("base of the rotary frequencies in layers with a window");
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_sliding_window(b);
    b.field("sliding_window_pattern", &Options::sliding_window_pattern)
        .min(1)
        .max(tenon::kMaxDecoderLayers)
        .doc("every layer whose number, from 1, is a multiple of this has no window");
    tenon::bind_size(b,
                     "query_pre_attn_scalar",
                     &Options::query_pre_attn_scalar,
                     "scores of the attention are divided by the square root of this");
    b.field("final_logit_softcapping", &Options::final_logit_softcapping)
        .exclusive_min(0)
        .doc("soft cap of the logits; null: none");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    TENON_CHECK(o.sliding_window.has_value(),
                "sliding_window is null, but layers of gemma3 need a window; set a number");
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.norm = tenon::NormKind::kRmsPlusOne;
    s.placement = tenon::NormPlacement::kBoth;
    s.names.feed_forward_norm = "pre_feedforward_layernorm";
    s.embedding_scale = std::sqrt(static_cast<double>(o.hidden_size));
    s.logit_softcap = o.final_logit_softcapping.value_or(0.0);
    s.rotaries.push_back(
        {o.head_width(), o.max_position_embeddings, o.rope_local_base_freq, std::nullopt});
    for (size_t i = 0; i < s.layers.size(); ++i) {
      tenon::DecoderAttention& a = s.layers[i].attention;
      const bool is_local = (static_cast<int64_t>(i) + 1) % o.sliding_window_pattern != 0;
      a.qk_norm = tenon::QueryKeyNorm::kHead;
      a.scale = 1.0 / std::sqrt(static_cast<double>(o.query_pre_attn_scalar));
      a.window = is_local ? a.window : 0;
      a.rotary = is_local ? 1 : 0;
      s.layers[i].feed_forward.activation = "gelu_tanh";
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("gemma3_text", "Gemma3ForCausalLM");
    o.list_keys(c, Options());
    c.key("head_dim", o.head_width(), 256);
    c.fixed("hidden_activation", "gelu_pytorch_tanh");
    c.key("attention_bias", o.attention_bias, false);
    c.key("query_pre_attn_scalar", o.query_pre_attn_scalar, 256);
    c.key("sliding_window", o.sliding_window, 4096);
    c.optional("layer_types", tenon::layer_types(s));
    c.optional("sliding_window_pattern", o.sliding_window_pattern);
    c.key("final_logit_softcapping", o.final_logit_softcapping, std::optional<double>());
    c.fixed("attn_logit_softcapping", std::optional<double>());
    c.fixed("use_bidirectional_attention", false);
    c.rope(s.rotaries[0], 1000000.0, s.rotaries[1], 10000.0);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Gemma3)
