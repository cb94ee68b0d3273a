// SPDX-License-Identifier: Apache-2.0
//
// The Phi-3 and Phi-4-mini decoders: a Llama whose files join queries, keys and values, and gate
// and up, with LongRoPE. Names of options and of tensors in files are those of Hugging Face's
// Phi3ForCausalLM.
//
// Source: Abdin et al., Phi-3 Technical Report (2024), section 2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

#include <cstring>

class Phi3 final : public tenon::Decoder<Phi3> {
 public:
  static constexpr const char* kType = "phi3";
  static constexpr const char* kSummary =
      "Phi-3 decoder: as llama, with LongRoPE and joined matrices in files";

  struct Options : tenon::DecoderOptions {
    Options() {
      vocab_size = 32064;
      hidden_size = 3072;
      intermediate_size = 8192;
      max_position_embeddings = 4096;
      norm_eps = 1e-5;
    }
    double partial_rotary_factor = 1.0;
    double resid_pdrop = 0.0;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
    b.field("partial_rotary_factor", &Options::partial_rotary_factor)
        .exclusive_min(0)
        .max(1)
        .doc("part of each head that is rotated");
    tenon::bind_sliding_window(b);
    tenon::bind_attention_dropout(b);
    tenon::bind_dropout(
        b, "resid_pdrop", &Options::resid_pdrop, "dropout probability of residual branches");
  }

  static tenon::DecoderSpec spec(const Options& o) {
    const auto width = static_cast<double>(o.hidden_size / o.num_attention_heads);
    tenon::DecoderSpec s =
        o.DecoderOptions::spec(static_cast<int64_t>(width * o.partial_rotary_factor));
    s.residual_dropout = o.resid_pdrop;
    s.names.joined_qkv = "self_attn.qkv_proj";
    s.names.joined_gate_up = "mlp.gate_up_proj";
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("phi3", "Phi3ForCausalLM");
    o.list_keys(c, Options());
    c.fixed("hidden_act", "silu");
    c.key("sliding_window", o.sliding_window, std::optional<int64_t>());
    c.note("original_max_position_embeddings",
           o.rope_scaling.has_value() ? o.rope_scaling->original_max_position_embeddings
                                      : o.max_position_embeddings);
    c.original_positions(4096);
    c.note("resid_pdrop", o.resid_pdrop);
    c.rope(s.rotaries[0], 10000.0, o.partial_rotary_factor, 1.0);
    return c;
  }

  // No caches with LongRoPE: a token that makes a sequence long changes all positions.
  const void* extension(const char* id) override {
    const bool is_cached = std::strcmp(id, TENON_GENERATION_ID) == 0;
    return is_cached && decoder().rotaries[0].is_long() ? nullptr : DecoderModel::extension(id);
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(Phi3)
