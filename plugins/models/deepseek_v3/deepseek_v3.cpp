// SPDX-License-Identifier: Apache-2.0
//
// The DeepSeek-V3 decoder: latent attention, experts that are balanced by a bias, shared experts,
// YaRN. Names of parameters and options are those of Hugging Face's DeepseekV3ForCausalLM; the
// matrices of all experts of a layer are one parameter. Prediction of several tokens is not
// supported.
//
// Source: DeepSeek-AI, DeepSeek-V3 Technical Report (2024), sections 2.1 and 2.2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <cmath>

class DeepseekV3 final : public tenon::Decoder<DeepseekV3> {
 public:
  static constexpr const char* kType = "deepseek_v3";
  static constexpr const char* kSummary =
      "DeepSeek-V3 decoder: latent attention, experts balanced by a bias";

  struct Options : tenon::ExpertOptions {
    Options() {
      vocab_size = 129280;
      hidden_size = 7168;
      intermediate_size = 18432;
      num_hidden_layers = 61;
      num_attention_heads = 128;
      max_position_embeddings = 4096;
      moe_intermediate_size = 2048;
      num_experts_per_tok = 8;
      router_aux_loss_coef = 0.0;
    }
    int64_t n_routed_experts = 256;
    int64_t n_shared_experts = 1;
    int64_t n_group = 8;
    int64_t topk_group = 4;
    int64_t first_k_dense_replace = 3;
    double routed_scaling_factor = 2.5;
    double bias_update_speed = 0.001;
    std::optional<int64_t> q_lora_rank = 1536;
    int64_t kv_lora_rank = 512;
    int64_t qk_nope_head_dim = 128;
    int64_t qk_rope_head_dim = 64;
    int64_t v_head_dim = 128;
    bool rope_interleave = true;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
    tenon::bind_attention_bias(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_experts(b);
    const auto size = [&b](const char* name, auto member, const char* doc) {
      tenon::bind_size(b, name, member, doc);
    };
    size("q_lora_rank", &Options::q_lora_rank, "width of compressed queries; null: uncompressed");
    size("kv_lora_rank", &Options::kv_lora_rank, "width of compressed keys and values");
    size("qk_nope_head_dim", &Options::qk_nope_head_dim, "features of a head without rotation");
    size("qk_rope_head_dim", &Options::qk_rope_head_dim, "features of a head with rotation; even");
    size("v_head_dim", &Options::v_head_dim, "width of a value, at most that of a head");
    b.field("rope_interleave", &Options::rope_interleave)
        .doc("whether rotated pairs are neighbors in the weights");
    size("n_routed_experts", &Options::n_routed_experts, "number of experts of a layer");
    size("n_shared_experts", &Options::n_shared_experts, "number of experts of every token");
    size("n_group", &Options::n_group, "number of groups of experts");
    size("topk_group", &Options::topk_group, "number of groups among which a token chooses");
    b.field("first_k_dense_replace", &Options::first_k_dense_replace)
        .min(0)
        .max(tenon::kMaxDecoderLayers)
        .doc("number of first layers without experts");
    b.field("routed_scaling_factor", &Options::routed_scaling_factor)
        .exclusive_min(0)
        .doc("factor of the weights of chosen experts");
    b.field("bias_update_speed", &Options::bias_update_speed)
        .min(0)
        .doc("change of an expert's bias after a step, toward an equal load; 0: none");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderOptions base = o;
    base.num_key_value_heads = o.num_attention_heads;
    base.head_dim = o.qk_nope_head_dim + o.qk_rope_head_dim;
    tenon::DecoderSpec s = base.spec(o.qk_rope_head_dim);
    TENON_CHECK(o.v_head_dim <= *base.head_dim,
                "v_head_dim ",
                o.v_head_dim,
                " exceeds the width of a head, qk_nope_head_dim + qk_rope_head_dim = ",
                *base.head_dim);
    tenon::LatentAttention latent;
    latent.query_rank = o.q_lora_rank.value_or(0);
    latent.kv_rank = o.kv_lora_rank;
    latent.plain = o.qk_nope_head_dim;
    latent.rotated = o.qk_rope_head_dim;
    latent.value = o.v_head_dim;
    latent.interleaved = o.rope_interleave;
    latent.has_bias = o.attention_bias;
    double scale = 1.0 / std::sqrt(static_cast<double>(*base.head_dim));
    if (o.rope_scaling.has_value() && o.rope_scaling->mscale_all_dim.value_or(0.0) != 0.0) {
      scale *= std::pow(tenon::yarn_mscale(o.rope_scaling->factor, *o.rope_scaling->mscale_all_dim),
                        2.0);
    }
    tenon::DecoderExperts experts = o.experts(o.n_routed_experts);
    experts.shared_width = o.moe_intermediate_size * o.n_shared_experts;
    experts.scores = tenon::RouterScores::kSigmoid;
    experts.scale = o.routed_scaling_factor;
    experts.num_groups = o.n_group;
    experts.chosen_groups = o.topk_group;
    experts.bias_step = o.bias_update_speed;
    for (size_t i = 0; i < s.layers.size(); ++i) {
      s.layers[i].attention.qkv_bias = false;
      s.layers[i].attention.latent = latent;
      s.layers[i].attention.scale = scale;
      if (static_cast<int64_t>(i) >= o.first_k_dense_replace) {
        s.layers[i].feed_forward.experts = experts;
      }
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("deepseek_v3", "DeepseekV3ForCausalLM");
    o.list_keys(c, Options());
    c.fixed("hidden_act", "silu");
    c.key("attention_bias", o.attention_bias, false);
    c.key("moe_intermediate_size", o.moe_intermediate_size, 2048);
    c.key("n_routed_experts", o.n_routed_experts, 256);
    c.key("n_shared_experts", o.n_shared_experts, 1);
    c.key("num_experts_per_tok", o.num_experts_per_tok, 8);
    c.key("n_group", o.n_group, 8);
    c.key("topk_group", o.topk_group, 4);
    c.key("first_k_dense_replace", o.first_k_dense_replace, 3);
    c.key("norm_topk_prob", o.norm_topk_prob, true);
    c.key("routed_scaling_factor", o.routed_scaling_factor, 2.5);
    c.key("q_lora_rank", o.q_lora_rank, 1536);
    c.key("kv_lora_rank", o.kv_lora_rank, 512);
    c.key("qk_nope_head_dim", o.qk_nope_head_dim, 128);
    c.key("qk_rope_head_dim", o.qk_rope_head_dim, 64);
    c.key("v_head_dim", o.v_head_dim, 128);
    c.key("rope_interleave", o.rope_interleave, true);
    // Read by the model's own code, and by other programs; transformers knows only these values.
    c.fixed("scoring_func", "sigmoid");
    c.fixed("topk_method", "noaux_tc");
    c.fixed("moe_layer_freq", 1);
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(DeepseekV3)
