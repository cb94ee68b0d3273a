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

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 129280;
      hidden_size = 7168;
      intermediate_size = 18432;
      num_hidden_layers = 61;
      num_attention_heads = 128;
      max_position_embeddings = 4096;
    }
    int64_t moe_intermediate_size = 2048;
    int64_t n_routed_experts = 256;
    int64_t n_shared_experts = 1;
    int64_t num_experts_per_tok = 8;
    int64_t n_group = 8;
    int64_t topk_group = 4;
    int64_t first_k_dense_replace = 3;
    bool norm_topk_prob = true;
    double routed_scaling_factor = 2.5;
    double bias_update_speed = 0.001;
    double router_aux_loss_coef = 0.0;
    double router_z_loss_coef = 0.0;
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
    const auto size = [&b](const char* name, auto member, const char* doc) {
      b.field(name, member).min(1).max(tenon::kMaxExperts * 1024).doc(doc);
    };
    size("q_lora_rank", &Options::q_lora_rank, "width of compressed queries; null: uncompressed");
    size("kv_lora_rank", &Options::kv_lora_rank, "width of compressed keys and values");
    size("qk_nope_head_dim", &Options::qk_nope_head_dim, "features of a head without rotation");
    size("qk_rope_head_dim", &Options::qk_rope_head_dim, "features of a head with rotation; even");
    size("v_head_dim", &Options::v_head_dim, "width of a value, at most that of a head");
    b.field("rope_interleave", &Options::rope_interleave)
        .doc("whether rotated pairs are neighbors in the weights");
    size("moe_intermediate_size", &Options::moe_intermediate_size, "hidden dimension of an expert");
    size("n_routed_experts", &Options::n_routed_experts, "number of experts of a layer");
    b.field("n_shared_experts", &Options::n_shared_experts)
        .min(0)
        .max(tenon::kMaxExperts)
        .doc("number of experts that every token has");
    size("num_experts_per_tok", &Options::num_experts_per_tok, "number of chosen experts of a token");
    size("n_group", &Options::n_group, "number of groups of experts");
    size("topk_group", &Options::topk_group, "number of groups among which a token chooses");
    b.field("first_k_dense_replace", &Options::first_k_dense_replace)
        .min(0)
        .max(tenon::kMaxDecoderLayers)
        .doc("number of first layers without experts");
    b.field("norm_topk_prob", &Options::norm_topk_prob)
        .doc("whether the weights of a token's experts add up to routed_scaling_factor");
    b.field("routed_scaling_factor", &Options::routed_scaling_factor)
        .exclusive_min(0)
        .doc("factor of the weights of experts");
    b.field("bias_update_speed", &Options::bias_update_speed)
        .min(0)
        .doc("change of an expert's bias in a training forward, toward an equal load; 0: none");
    tenon::bind_router_losses(b);
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
    tenon::LatentAttention latent{o.q_lora_rank.value_or(0), o.kv_lora_rank, o.qk_nope_head_dim,
                                  o.qk_rope_head_dim, o.v_head_dim};
    latent.interleaved = o.rope_interleave;
    latent.has_bias = o.attention_bias;
    double scale = 1.0 / std::sqrt(static_cast<double>(*base.head_dim));
    if (o.rope_scaling.has_value() && o.rope_scaling->mscale_all_dim.value_or(0.0) != 0.0) {
      scale *= std::pow(
          tenon::yarn_mscale(o.rope_scaling->factor, *o.rope_scaling->mscale_all_dim), 2.0);
    }
    tenon::DecoderExperts experts;
    experts.num_experts = o.n_routed_experts;
    experts.per_token = o.num_experts_per_tok;
    experts.width = o.moe_intermediate_size;
    experts.shared_width = o.moe_intermediate_size * o.n_shared_experts;
    experts.scores = tenon::RouterScores::kSigmoid;
    experts.is_normalized = o.norm_topk_prob;
    experts.scale = o.routed_scaling_factor;
    experts.num_groups = o.n_group;
    experts.chosen_groups = o.topk_group;
    experts.bias_step = o.bias_update_speed;
    experts.balance_loss = o.router_aux_loss_coef;
    experts.z_loss = o.router_z_loss_coef;
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
    for (const auto& [name, here, otherwise] :
         std::initializer_list<std::tuple<const char*, tenon::HfValue, tenon::HfValue>>{
             {"hidden_act", "silu", "silu"},
             {"attention_bias", o.attention_bias, false},
             {"moe_intermediate_size", o.moe_intermediate_size, 2048},
             {"n_routed_experts", o.n_routed_experts, 256},
             {"n_shared_experts", o.n_shared_experts, 1},
             {"num_experts_per_tok", o.num_experts_per_tok, 8},
             {"n_group", o.n_group, 8},
             {"topk_group", o.topk_group, 4},
             {"first_k_dense_replace", o.first_k_dense_replace, 3},
             {"norm_topk_prob", o.norm_topk_prob, true},
             {"routed_scaling_factor", o.routed_scaling_factor, 2.5},
             {"q_lora_rank", o.q_lora_rank, 1536},
             {"kv_lora_rank", o.kv_lora_rank, 512},
             {"qk_nope_head_dim", o.qk_nope_head_dim, 128},
             {"qk_rope_head_dim", o.qk_rope_head_dim, 64},
             {"v_head_dim", o.v_head_dim, 128},
             {"rope_interleave", o.rope_interleave, true}}) {
      c.key(name, here, otherwise);
    }
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(DeepseekV3)
