// SPDX-License-Identifier: Apache-2.0
//
// The OLMo 2 decoder: norms after attention and feed-forward, and of queries and keys over all
// heads. Names of parameters and options are those of Hugging Face's Olmo2ForCausalLM.
//
// Source: OLMo Team, 2 OLMo 2 Furious (2024), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Olmo2 final : public tenon::Decoder<Olmo2> {
 public:
  static constexpr const char* kType = "olmo2";
  static constexpr const char* kSummary =
      "OLMo 2 decoder: norms after each part, and of all queries and keys";

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 50304;
      norm_eps = 1e-5;
    }
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.placement = tenon::NormPlacement::kPost;
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.attention.qk_norm = tenon::QueryKeyNorm::kWidth;
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("olmo2", "Olmo2ForCausalLM");
    o.list_keys(c, Options());
    c.fixed("hidden_act", "silu");
    c.key("attention_bias", o.attention_bias, false);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Olmo2)
