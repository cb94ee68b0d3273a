// SPDX-License-Identifier: Apache-2.0
//
// The Mistral decoder: a Llama with a window of attention. Names of parameters and options are
// those of Hugging Face's MistralForCausalLM.
//
// Source: Jiang et al., Mistral 7B (2023), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Mistral final : public tenon::Decoder<Mistral> {
 public:
  static constexpr const char* kType = "mistral";
  static constexpr const char* kSummary = "Mistral decoder: as llama, with a window of attention";

  struct Options : tenon::DecoderOptions {
    Options() {
      intermediate_size = 14336;
      num_key_value_heads = 8;
      max_position_embeddings = 131072;
      sliding_window = 4096;
    }
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_sliding_window(b);
  }

  static tenon::DecoderSpec spec(const Options& o) { return o.DecoderOptions::spec(); }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("mistral", "MistralForCausalLM");
    o.list_keys(c, Options());
    c.optional("head_dim", o.head_width());
    c.fixed("hidden_act", "silu");
    c.key("sliding_window", o.sliding_window, 4096);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Mistral)
