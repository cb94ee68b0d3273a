// SPDX-License-Identifier: Apache-2.0
//
// The Qwen3 decoder with experts. Names of parameters and options are those of Hugging Face's
// Qwen3MoeForCausalLM; the matrices of all experts of a layer are one parameter.
//
// Source: Yang et al., Qwen3 Technical Report (2025), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <algorithm>

class Qwen3Moe final : public tenon::Decoder<Qwen3Moe> {
 public:
  static constexpr const char* kType = "qwen3_moe";
  static constexpr const char* kSummary = "Qwen3 decoder with a mixture of experts";

  struct Options : tenon::ExpertOptions {
    Options() {
      vocab_size = 151936;
      hidden_size = 2048;
      intermediate_size = 6144;
      num_hidden_layers = 24;
      num_key_value_heads = 4;
      max_position_embeddings = 32768;
      moe_intermediate_size = 768;
      num_experts_per_tok = 8;
      norm_topk_prob = false;
    }
    int64_t num_experts = 128;
    int64_t decoder_sparse_step = 1;
    std::vector<int64_t> mlp_only_layers;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_sliding_window(b);
    tenon::bind_experts(b);
    tenon::bind_size(b, "num_experts", &Options::num_experts, "number of experts of a layer");
    tenon::bind_size(b,
                     "decoder_sparse_step",
                     &Options::decoder_sparse_step,
                     "every layer whose number, from 1, is a multiple of this has experts");
    b.field("mlp_only_layers", &Options::mlp_only_layers)
        .min(0)
        .max(tenon::kMaxDecoderLayers)
        .doc("numbers, from 0, of layers without experts");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    for (size_t i = 0; i < s.layers.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      s.layers[i].attention.qk_norm = tenon::QueryKeyNorm::kHead;
      const auto& dense = o.mlp_only_layers;
      if (std::find(dense.begin(), dense.end(), number) == dense.end() &&
          (number + 1) % o.decoder_sparse_step == 0) {
        s.layers[i].feed_forward.experts = o.experts(o.num_experts);
      }
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("qwen3_moe", "Qwen3MoeForCausalLM");
    o.list_keys(c, Options());
    c.key("head_dim", o.head_width(), o.hidden_size / o.num_attention_heads);
    c.fixed("hidden_act", "silu");
    c.key("attention_bias", o.attention_bias, false);
    c.key("use_sliding_window", o.sliding_window.has_value(), false);
    if (o.sliding_window.has_value()) {
      c.key("sliding_window", *o.sliding_window, 4096);
    }
    c.key("moe_intermediate_size", o.moe_intermediate_size, 768);
    c.optional("num_experts", o.num_experts);  // files have one name or the other
    c.optional("num_local_experts", o.num_experts);
    c.key("num_experts_per_tok", o.num_experts_per_tok, 8);
    c.key("norm_topk_prob", o.norm_topk_prob, false);
    c.key("decoder_sparse_step", o.decoder_sparse_step, 1);
    c.key("mlp_only_layers", o.mlp_only_layers, std::vector<int64_t>());
    c.note("router_aux_loss_coef", o.router_aux_loss_coef);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Qwen3Moe)
