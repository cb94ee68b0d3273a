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

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 151936;
      intermediate_size = 22016;
      num_key_value_heads = 32;
      max_position_embeddings = 32768;
      sliding_window = 4096;
    }
    bool use_sliding_window = false;
    int64_t max_window_layers = 28;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
    tenon::bind_attention_dropout(b);
    b.field("use_sliding_window", &Options::use_sliding_window)
        .doc("limit the attention of layers from max_window_layers on");
    tenon::bind_sliding_window(b);
    b.field("max_window_layers", &Options::max_window_layers)
        .min(0)
        .max(tenon::kMaxDecoderLayers)
        .doc("number of the first layer with a window");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    for (size_t i = 0; i < s.layers.size(); ++i) {
      s.layers[i].attention.qkv_bias = true;
      if (!o.use_sliding_window || static_cast<int64_t>(i) < o.max_window_layers) {
        s.layers[i].attention.window = 0;
      }
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("qwen2", "Qwen2ForCausalLM");
    o.list_keys(c, Options());
    c.fixed("hidden_act", "silu");
    c.key("use_sliding_window", o.use_sliding_window, false);
    if (o.use_sliding_window) {
      c.key("sliding_window", o.sliding_window, 4096);
      c.optional("layer_types", tenon::layer_types(s));
    } else {
      c.note("sliding_window", o.sliding_window);
    }
    c.note("max_window_layers", o.max_window_layers);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Qwen2)
