// SPDX-License-Identifier: Apache-2.0
//
// The Qwen3 decoder: a Llama with norms of queries and keys, and heads of any width. Names of
// parameters and options are those of Hugging Face's Qwen3ForCausalLM.
//
// Source: Yang et al., Qwen3 Technical Report (2025), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Qwen3 final : public tenon::Decoder<Qwen3> {
 public:
  static constexpr const char* kType = "qwen3";
  static constexpr const char* kSummary = "Qwen3 decoder: as llama, with norms of queries and keys";

  struct Options : tenon::UpperWindowOptions {
    Options() {
      vocab_size = 151936;
      intermediate_size = 22016;
      num_key_value_heads = 32;
      head_dim = 128;
      max_position_embeddings = 32768;
      sliding_window = 4096;
    }
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_upper_windows(b);
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.attention.qk_norm = tenon::QueryKeyNorm::kHead;
    }
    o.limit_windows(s);
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("qwen3", "Qwen3ForCausalLM");
    o.list_keys(c, Options());
    c.key("head_dim", o.head_width(), 128);
    c.fixed("hidden_act", "silu");
    c.key("attention_bias", o.attention_bias, false);
    o.list_window_keys(c, s);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Qwen3)
