// SPDX-License-Identifier: Apache-2.0
//
// A decoder whose queries, keys and values are one parameter, with fewer key heads than query heads
// and biases of all.
#include <tenon/cpp/plugin.hpp>
#include <tenon/decoder/decoder.hpp>

class FusedLm final : public tenon::Decoder<FusedLm> {
 public:
  static constexpr const char* kType = "fused_lm";
  static constexpr const char* kSummary = "a decoder with one matrix for queries, keys and values";

  struct Options : tenon::DecoderOptions {};
  static void bind(tenon::OptionBinder<Options>& b) {
    tenon::bind_decoder(b);
    tenon::bind_rope(b);
  }

  static tenon::DecoderSpec spec(const Options& o) {
    tenon::DecoderSpec s = o.DecoderOptions::spec();
    s.names.query = "self_attn.qkv_proj";
    for (tenon::DecoderLayer& layer : s.layers) {
      layer.attention.is_fused = true;
      layer.attention.qkv_bias = true;
      layer.attention.output_bias = true;
    }
    return s;
  }

  static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s) {
    tenon::HfConfig c("fused_lm", "FusedLmForCausalLM");
    o.list_keys(c, Options());
    c.rope(s.rotaries[0]);
    return c;
  }

  using Decoder::Decoder;
};

TENON_PLUGIN(FusedLm)
