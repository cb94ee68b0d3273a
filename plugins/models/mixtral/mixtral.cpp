// SPDX-License-Identifier: Apache-2.0
//
// The Mixtral decoder: Mistral with experts. Names of options and of tensors in files are those of
// Hugging Face's MixtralForCausalLM; the matrices of all experts of a layer are one parameter.
//
// Source: Jiang et al., Mixtral of Experts (2024), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class Mixtral final : public tenon::Decoder<Mixtral> {
 public:
  static constexpr const char* kType = "mixtral";
  static constexpr const char* kSummary = "Mixtral decoder: as mistral, with a mixture of experts";

  struct Options : tenon::ExpertOptions {
    Options() {
      intermediate_size = 14336;
      num_key_value_heads = 8;
      max_position_embeddings = 131072;
      norm_eps = 1e-5;
      rope_theta = 1000000.0;
    }
    int64_t num_local_experts = 8;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_head_dim(b);
    tenon::bind_rope(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_sliding_window(b);
    tenon::bind_size(
        b, "num_local_experts", &Options::num_local_experts, "number of experts of a layer");
    tenon::bind_router(b);
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.names.router = "block_sparse_moe.gate";
    s.names.experts = "block_sparse_moe.experts.";
    s.names.expert_gate = "w1";
    s.names.expert_up = "w3";
    s.names.expert_down = "w2";
    tenon::DecoderExperts experts = o.experts(o.num_local_experts);
    experts.width = o.intermediate_size;
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.feed_forward.experts = experts;
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("mixtral", "MixtralForCausalLM");
    o.list_keys(c, Options());
    c.optional("head_dim", o.head_width());
    c.fixed("hidden_act", "silu");
    c.key("sliding_window", o.sliding_window, std::optional<int64_t>());
    c.key("num_local_experts", o.num_local_experts, 8);
    c.key("num_experts_per_tok", o.num_experts_per_tok, 2);
    c.note("router_aux_loss_coef", o.router_aux_loss_coef);
    c.rope(s.rotaries[0], 1000000.0);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Mixtral)
