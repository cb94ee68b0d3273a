// SPDX-License-Identifier: Apache-2.0
//
// The Qwen2 and Qwen2.5 decoders: a Llama with biases of queries, keys and values, and windows in
// upper layers. Names of parameters and options are those of Hugging Face's Qwen2ForCausalLM.
//
// Source: Yang et al., Qwen2 Technical Report (2024), section 2.2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Qwen2 final : public tenon::Decoder<Qwen2> {
 public:
  static constexpr const char* kType = "qwen2";
  static constexpr const char* kSummary =
      "Qwen2 decoder: as llama, with biases of queries, keys and values";

  struct Options : tenon::UpperWindowOptions {
    Options() {
      vocab_size = 151936;
      intermediate_size = 22016;
      num_key_value_heads = 32;
      max_position_embeddings = 32768;
      sliding_window = 4096;
    }
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_upper_windows(b);
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.attention.qkv_bias = true;
    }
    o.limit_windows(s);
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("qwen2", "Qwen2ForCausalLM");
    o.list_keys(c, Options());
    c.fixed("hidden_act", "silu");
    o.list_window_keys(c, s);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Qwen2)
