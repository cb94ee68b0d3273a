// SPDX-License-Identifier: Apache-2.0
//
// The Llama decoder, versions 1 to 3. Names of parameters and options are those of Hugging Face's
// LlamaForCausalLM.
//
// Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models (2023), section 2.2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Llama final : public tenon::Decoder<Llama> {
 public:
  static constexpr const char* kType = "llama";
  static constexpr const char* kSummary =
      "Llama decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU";

  struct Options : tenon::DecoderOptions {
    double dropout = 0.0;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    b.field("dropout", &Options::dropout)
        .min(0)
        .exclusive_max(1)
        .doc("dropout probability of attention weights and residual branches, in training");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.attention_dropout = o.dropout;
    s.residual_dropout = o.dropout;
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("llama", "LlamaForCausalLM");
    tenon::DecoderOptions listed = o;
    listed.attention_dropout = o.dropout;
    listed.list_keys(c, {});
    c.optional("head_dim", o.head_width());
    c.fixed("hidden_act", "silu");
    c.fixed("attention_bias", false);
    c.fixed("mlp_bias", false);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Llama)
