// SPDX-License-Identifier: Apache-2.0
//
// The Llama decoder as a graph of blocks: an embedding, one block per layer, a head. Parameter and
// option names match Hugging Face's LlamaForCausalLM, so its configurations and weights load
// directly. For training only: no label shift, no KV cache.
//
// Letters in tensor names: B samples, T positions, D width, H query heads, K key and value heads, E
// width of a head, F width of the feed-forward layer, V vocabulary.
//
// Source: Touvron et al., LLaMA: Open and Efficient Foundation Language Models (2023), section 2.2.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/weights_layout.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../size_limits.hpp"
#include "block_cost.hpp"
#include "hf_config.hpp"

namespace {

namespace ops = tenon::ops;

// Reports the first id without an embedding row. libtorch reports neither id nor position.
[[noreturn]] void fail_token(const at::Tensor& ids_BT, int64_t num_rows) {
  const at::Tensor flat = ids_BT.reshape({-1});
  const int64_t place =
      flat.lt(0).logical_or(flat.ge(num_rows)).to(at::kLong).argmax().item<int64_t>();
  TENON_FAIL(TENON_INVALID,
             "llama.token",
             "token ",
             flat[place].item<int64_t>(),
             " at position ",
             place,
             " of input_ids ",
             ids_BT.sizes(),
             " is not in [0, ",
             num_rows,
             "); set `vocab_size` to at least the tokenizer's");
}

}  // namespace

class Llama final : public tenon::TorchModel, public tenon::WeightsLayout {
 public:
  static constexpr const char* kType = "llama";
  static constexpr const char* kSummary =
      "Llama decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU";

  enum class RopeType { kLinear, kLlama3 };

  // Extends the context beyond the pretraining length with lower rotary frequencies.
  struct RopeScaling {
    RopeType rope_type = RopeType::kLlama3;
    double factor = 8.0;
    double low_freq_factor = 1.0;
    double high_freq_factor = 4.0;
    int64_t original_max_position_embeddings = 8192;

    static void bind(tenon::OptionBinder<RopeScaling>& b) {
      b.choice("rope_type",
               &RopeScaling::rope_type,
               {{"linear", RopeType::kLinear}, {"llama3", RopeType::kLlama3}})
          .doc("linear: divide all frequencies by factor; llama3: divide only low frequencies");
      b.field("factor", &RopeScaling::factor).min(1).doc("divisor of the scaled frequencies");
      b.field("low_freq_factor", &RopeScaling::low_freq_factor)
          .exclusive_min(0)
          .doc("llama3: wavelengths above original length / this are scaled fully");
      b.field("high_freq_factor", &RopeScaling::high_freq_factor)
          .exclusive_min(0)
          .doc("llama3: wavelengths below original length / this are not scaled");
      b.field("original_max_position_embeddings", &RopeScaling::original_max_position_embeddings)
          .min(1)
          .max(tenon::kMaxPositions)
          .doc("llama3: sequence length of pretraining");
    }
  };

  struct Options {
    int64_t vocab_size = 32000;
    int64_t hidden_size = 4096;
    int64_t intermediate_size = 11008;
    int64_t num_hidden_layers = 32;
    int64_t num_attention_heads = 32;
    std::optional<int64_t> num_key_value_heads;
    int64_t max_position_embeddings = 2048;
    double rms_norm_eps = 1e-6;
    double rope_theta = 10000.0;
    std::optional<RopeScaling> rope_scaling;
    bool tie_word_embeddings = false;
    double initializer_range = 0.02;
    double dropout = 0.0;
  };
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("vocab_size", &Options::vocab_size)
        .min(1)
        .max(tenon::kMaxVocabulary)
        .doc("vocabulary size; ids are in [0, vocab_size)");
    b.field("hidden_size", &Options::hidden_size)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("hidden dimension of the model");
    b.field("intermediate_size", &Options::intermediate_size)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("hidden dimension of the feed-forward layers");
    b.field("num_hidden_layers", &Options::num_hidden_layers)
        .min(1)
        .max(tenon::kMaxLayers)
        .doc("number of layers");
    b.field("num_attention_heads", &Options::num_attention_heads)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc("number of query heads; hidden_size / num_attention_heads must be an even integer");
    b.field("num_key_value_heads", &Options::num_key_value_heads)
        .min(1)
        .max(tenon::kMaxWidth)
        .doc(
            "number of key and value heads, a divisor of num_attention_heads; null: "
            "num_attention_heads");
    b.field("max_position_embeddings", &Options::max_position_embeddings)
        .min(1)
        .max(tenon::kMaxPositions)
        .doc("maximum sequence length; sets the size of the rotary table");
    b.field("rms_norm_eps", &Options::rms_norm_eps)
        .min(0)
        .doc("added to the mean square for numerical stability");
    b.field("rope_theta", &Options::rope_theta)
        .exclusive_min(0)
        .doc("base of the rotary frequencies");
    b.field("rope_scaling", &Options::rope_scaling)
        .doc("rotary scaling for sequences longer than in pretraining; null: none");
    b.field("tie_word_embeddings", &Options::tie_word_embeddings)
        .doc("share weights between embedding and output head");
    b.field("initializer_range", &Options::initializer_range)
        .min(0)
        .doc("standard deviation of initial matrix values");
    b.field("dropout", &Options::dropout)
        .min(0)
        .exclusive_max(1)
        .doc("dropout probability of attention weights and residual branches, in training");
  }

  explicit Llama(const Options& options) : o_(options) {
    num_kv_heads_ = o_.num_key_value_heads.value_or(o_.num_attention_heads);
    head_size_ = o_.hidden_size / o_.num_attention_heads;
    TENON_CHECK(o_.hidden_size % o_.num_attention_heads == 0 && head_size_ % 2 == 0,
                "hidden_size ",
                o_.hidden_size,
                " over num_attention_heads ",
                o_.num_attention_heads,
                " must be an even integer");
    TENON_CHECK(o_.num_attention_heads % num_kv_heads_ == 0,
                "num_key_value_heads ",
                num_kv_heads_,
                " must divide num_attention_heads ",
                o_.num_attention_heads);
    TENON_CHECK(!o_.rope_scaling.has_value() ||
                    o_.rope_scaling->low_freq_factor < o_.rope_scaling->high_freq_factor,
                "rope_scaling: low_freq_factor must be less than high_freq_factor");
  }
  void describe(tenon::TorchGraph& g) override {
    const int64_t width = o_.hidden_size;
    const int64_t inner = o_.intermediate_size;
    // Tensor-parallel ranks divide `axis` in units: heads in attention, otherwise single features.
    const auto weight =
        [&](const std::string& name, int64_t out, int64_t in, uint32_t axis, int64_t num_units) {
          return add_weight(g, name, out, in, {axis, {axis == 0 ? out : in}, {num_units}});
        };
    const auto norm = [&](const std::string& name) { return add_norm(g, name); };
    const auto hidden = [&](int64_t i) {
      return g.value("hidden." + std::to_string(i), {"B", "T", width});
    };
    const auto rotary = g.constant("rotary",
                                   {2, o_.max_position_embeddings, head_size_ / 2},
                                   TENON_F32,
                                   [this](at::Tensor& table) { fill_rotary(table); });

    const auto ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const auto embedding = weight("model.embed_tokens", o_.vocab_size, width, 0, o_.vocab_size);
    auto x = hidden(0);
    g.block("embed", {ids}, {x}, {embedding}, [](const tenon::BlockCall& b) {
       try {
         return ops::embedding(b.parameter(0), b.input(0));
       } catch (const c10::IndexError&) {
         fail_token(b.input(0), b.parameter(0).size(0));
       }
     }).flags(TENON_BLOCK_TOKENWISE);

    for (int64_t i = 0; i < o_.num_hidden_layers; ++i) {
      const std::string layer = "layers." + std::to_string(i);
      const std::string name = "model." + layer;
      const int64_t kv_width = num_kv_heads_ * head_size_;
      const auto next = hidden(i + 1);
      // In the order in which `run_layer` reads them.
      const std::vector<tenon::ParameterId> parameters = {
          norm(name + ".input_layernorm"),
          weight(name + ".self_attn.q_proj", width, width, 0, o_.num_attention_heads),
          weight(name + ".self_attn.k_proj", kv_width, width, 0, num_kv_heads_),
          weight(name + ".self_attn.v_proj", kv_width, width, 0, num_kv_heads_),
          weight(name + ".self_attn.o_proj", width, width, 1, o_.num_attention_heads),
          norm(name + ".post_attention_layernorm"),
          weight(name + ".mlp.gate_proj", inner, width, 0, inner),
          weight(name + ".mlp.up_proj", inner, width, 0, inner),
          weight(name + ".mlp.down_proj", width, inner, 1, inner)};
      g.block(layer, {x}, {next}, parameters, [this](const tenon::BlockCall& b) {
         return run_layer(b);
       }).buffers({rotary});
      x = next;
    }

    const auto last_norm = norm("model.norm");
    const auto head = o_.tie_word_embeddings
                          ? g.tied_parameter("lm_head.weight", "model.embed_tokens.weight")
                          : weight("lm_head", o_.vocab_size, width, 0, o_.vocab_size);
    const auto logits = g.value("logits", {"B", "T", o_.vocab_size});
    g.block("head", {x}, {logits}, {last_norm, head}, [this](const tenon::BlockCall& b) {
       return ops::linear(ops::rms_norm(b.input(0), b.parameter(0), o_.rms_norm_eps),
                          {b.parameter(1)});
     }).flags(TENON_BLOCK_TOKENWISE);
  }

  // Parameter names already match the layout "hf".
  const void* extension(const char* id) override {
    return tenon::WeightsLayoutCalls<Llama>::find(id);
  }
  void describe_layout(const std::string& layout,
                       uint32_t dtype,
                       tenon::LayoutBuilder& builder) override {
    check_layout(layout);
    for (const std::string& name : parameters_) {
      builder.tensor(name, name);
    }
    if (o_.tie_word_embeddings) {
      builder.tensor("lm_head.weight", "model.embed_tokens.weight", TENON_LAYOUT_ALIAS);
    }
    builder.file("config.json", hf_config_text(hf_config(), dtype));
  }
  void compare_layout(const std::string& layout,
                      const tenon::OptionReader& config,
                      tenon::LayoutDifferences& differences) override {
    check_layout(layout);
    compare_hf_config(hf_config(), config, differences);
  }

  // Cost of a block by block_cost.hpp, in the order of `describe`: embedding, layers, head.
  void on_infer(const tenon::Exec& exec, tenon_infer_args& args) override {
    const auto last = static_cast<uint32_t>(o_.num_hidden_layers) + 1;
    TENON_CHECK(args.block <= last && args.num_inputs == 1 && args.num_outputs == 1 &&
                    args.input_ndims[0] == (args.block == 0 ? 2U : 3U),
                "infer: block ",
                args.block,
                " of ",
                last + 1,
                " called with unexpected inputs");
    const int64_t* const shape = args.input_shapes[0];
    const LayerSizes s = sizes(shape[0], shape[1], exec);
    const bool is_head = args.block == last;
    const auto vocabulary = static_cast<double>(o_.vocab_size);
    const BlockCost cost = args.block == 0 ? embed_block(s, vocabulary)
                           : is_head       ? head_block(s, vocabulary)
                                           : layer_block(s);
    args.out_flops = cost.flops;
    args.out_saved_bytes = cost.kept;
    args.out_working_bytes = cost.working;
    args.out_ndims[0] = 3;
    args.out_shapes[0][0] = shape[0];
    args.out_shapes[0][1] = shape[1];
    args.out_shapes[0][2] = is_head ? o_.vocab_size : o_.hidden_size;
  }

 private:
  tenon::ParameterId add_weight(tenon::TorchGraph& g,
                                const std::string& name,
                                int64_t out,
                                int64_t in,
                                const tenon::Split& split) {
    parameters_.push_back(name + ".weight");
    const auto matrix = tenon::Init::normal(0.0, o_.initializer_range);
    // Only the embedding reads its elements.
    const uint32_t flags = name == "model.embed_tokens" ? 0 : TENON_PARAM_LINEAR;
    return g.parameter(name + ".weight", {out, in}, matrix, flags, split);
  }
  tenon::ParameterId add_norm(tenon::TorchGraph& g, const std::string& name) {
    parameters_.push_back(name + ".weight");
    return g.parameter(
        name + ".weight", {o_.hidden_size}, tenon::Init::ones(), TENON_PARAM_NO_DECAY);
  }

  static void check_layout(const std::string& layout) {
    if (layout != "hf") {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "llama.layout",
                 "unknown layout \"",
                 layout,
                 "\" of llama's weights (available: \"hf\")");
    }
  }

  HfConfig hf_config() const {
    HfConfig c;
    c.vocab_size = o_.vocab_size;
    c.hidden_size = o_.hidden_size;
    c.intermediate_size = o_.intermediate_size;
    c.num_hidden_layers = o_.num_hidden_layers;
    c.num_attention_heads = o_.num_attention_heads;
    c.num_key_value_heads = num_kv_heads_;
    c.head_dim = head_size_;
    c.max_position_embeddings = o_.max_position_embeddings;
    c.rms_norm_eps = o_.rms_norm_eps;
    c.rope_theta = o_.rope_theta;
    c.tie_word_embeddings = o_.tie_word_embeddings;
    c.initializer_range = o_.initializer_range;
    c.dropout = o_.dropout;
    if (o_.rope_scaling.has_value()) {
      const RopeScaling& scaling = *o_.rope_scaling;
      c.rope_type = scaling.rope_type == RopeType::kLinear ? "linear" : "llama3";
      c.factor = scaling.factor;
      c.low_freq_factor = scaling.low_freq_factor;
      c.high_freq_factor = scaling.high_freq_factor;
      c.original_max_position_embeddings = scaling.original_max_position_embeddings;
    }
    return c;
  }

  LayerSizes sizes(int64_t samples, int64_t positions, const tenon::Exec& exec) const {
    const bool on_cpu = exec.device().type == TENON_CPU;
    const auto device = on_cpu ? at::kCPU : at::kCUDA;
    const bool narrows = at::autocast::is_autocast_enabled(device);
    const at::ScalarType dtype = tenon::scalar_type(exec.compute_dtype());
    const auto element_size = static_cast<double>(c10::elementSize(dtype));
    LayerSizes s;
    s.B = static_cast<double>(samples);
    s.T = static_cast<double>(positions);
    s.D = static_cast<double>(o_.hidden_size);
    s.H = static_cast<double>(o_.num_attention_heads);
    s.K = static_cast<double>(num_kv_heads_);
    s.E = static_cast<double>(head_size_);
    s.F = static_cast<double>(o_.intermediate_size);
    s.table = static_cast<double>(o_.max_position_embeddings);
    s.bytes = element_size;
    s.on_cpu = on_cpu;
    s.fused = ops::is_fused("attention", dtype, device);
    s.narrows = narrows;
    s.drops = o_.dropout > 0.0;
    return s;
  }

  // cos and sin of position times frequency: table[0] and table[1], [P, E/2] each.
  void fill_rotary(at::Tensor& table) const {
    const auto options = at::dtype(at::kFloat);
    const at::Tensor exponents = at::arange(0, head_size_, 2, at::dtype(at::kLong)).to(at::kFloat) /
                                 static_cast<double>(head_size_);
    const at::Tensor frequencies = scaled(1.0 / at::pow(o_.rope_theta, exponents));
    const at::Tensor angles = at::outer(at::arange(table.size(1), options), frequencies);
    table.select(0, 0).copy_(angles.cos());
    table.select(0, 1).copy_(angles.sin());
  }

  // Frequencies scaled by `rope_scaling`. Between the two wavelengths of llama3, the scaled and
  // unscaled values are interpolated.
  // Source   Dubey et al., The Llama 3 Herd of Models (2024), section 3.4.2; in the form of the
  //          released models
  at::Tensor scaled(const at::Tensor& frequencies) const {
    if (!o_.rope_scaling.has_value()) {
      return frequencies;
    }
    const RopeScaling& scaling = *o_.rope_scaling;
    if (scaling.rope_type == RopeType::kLinear) {
      return frequencies / scaling.factor;
    }
    constexpr double kTurn = 6.283185307179586;
    // Number of wavelengths within the pretraining length.
    const at::Tensor waves =
        frequencies * (static_cast<double>(scaling.original_max_position_embeddings) / kTurn);
    const at::Tensor kept =
        ((waves - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor))
            .clamp(0.0, 1.0);
    return (1.0 - kept) * frequencies / scaling.factor + kept * frequencies;
  }

  at::Tensor run_layer(const tenon::BlockCall& b) const {
    const at::Tensor& x_BTD = b.input(0);
    const int64_t num_positions = x_BTD.size(1);
    TENON_CHECK(num_positions <= o_.max_position_embeddings,
                "a sequence has ",
                num_positions,
                " positions, but max_position_embeddings is ",
                o_.max_position_embeddings);
    const double dropout = b.is_train() ? o_.dropout : 0.0;
    const auto drop = [&](const at::Tensor& x) {
      return dropout > 0 ? at::dropout(x, dropout, /*train=*/true) : x;
    };
    const at::Tensor normed = ops::rms_norm(x_BTD, b.parameter(0), o_.rms_norm_eps);
    const at::Tensor qkv = ops::linear(normed, {b.parameter(1), b.parameter(2), b.parameter(3)});
    const at::Tensor attended = ops::packed_attention(
        qkv, o_.num_attention_heads, num_kv_heads_, {.rotary = b.buffer(0), .dropout = dropout});
    const auto [h_BTD, normed_h] = ops::add_rms_norm(
        x_BTD, drop(ops::linear(attended, {b.parameter(4)})), b.parameter(5), o_.rms_norm_eps);
    const at::Tensor fed = ops::gated_mlp(normed_h, b.parameter(6), b.parameter(7), b.parameter(8));
    return h_BTD + drop(fed);
  }

  Options o_;
  std::vector<std::string> parameters_;  // names, without tied ones
  int64_t num_kv_heads_ = 0;
  int64_t head_size_ = 0;
};

TENON_PLUGIN(Llama)
