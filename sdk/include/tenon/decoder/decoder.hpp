// SPDX-License-Identifier: Apache-2.0
//
// Decoders for language modeling, said once: a model gives a DecoderSpec and the keys of its
// config.json, and gets a graph with recompute by layer, the layout "hf" of its weights, costs for
// `--plan`, and generation with caches:
//
//     class Qwen2 final : public tenon::Decoder<Qwen2> {
//      public:
//       static constexpr const char* kType = "qwen2";
//       static constexpr const char* kSummary = "Qwen2 decoder";
//       struct Options : tenon::DecoderOptions {};
//       static void bind(tenon::OptionBinder<Options>& b) { tenon::bind_decoder(b); ... }
//       static tenon::DecoderSpec spec(const Options& o);
//       static tenon::HfConfig config(const Options& o, const tenon::DecoderSpec& s);
//       using Decoder::Decoder;
//     };
//     TENON_PLUGIN(Qwen2)
//
// Inputs are `input_ids` [B, T], and if the batch has them `position_ids` and `segment_ids` [B, T]:
// positions attend only to their own segment, a run of equal numbers. Without `position_ids`,
// positions count from 0 in each row. Outputs are `logits` [B, T, V], and `hidden.N`, the input of
// layer N, and `token_logps` [B, T], the log-probabilities of `labels`, unless the head has a bias
// or a softcap. Blocks are `embed`, for each layer `layers.N.attention` and
// `layers.N.feed_forward`, which form the unit `layers.N`, `head`, and `head_logps`. With a memory,
// `layers.N.memory` is the first block of the unit. The host skips a head that nothing reads.
//
// Tensor ranks divide heads, inner widths and the vocabulary; only a memory runs whole on each.
#ifndef TENON_DECODER_DECODER_HPP
#define TENON_DECODER_DECODER_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/weights_layout.hpp>
#include <tenon/decoder/attention.hpp>
#include <tenon/decoder/cost.hpp>
#include <tenon/decoder/feed_forward.hpp>
#include <tenon/decoder/generation.hpp>
#include <tenon/decoder/hf_config.hpp>
#include <tenon/decoder/memory.hpp>
#include <tenon/decoder/options.hpp>
#include <tenon/decoder/parameters.hpp>
#include <tenon/decoder/spec.hpp>
#include <tenon/torch/generation.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Errors   TENON_INVALID for a spec that no decoder has, naming the option to change */
inline void check_decoder(const DecoderSpec& s) {
  for (const RotaryTable& table : s.rotaries) {
    table.check();
  }
  for (const DecoderLayer& layer : s.layers) {
    const DecoderAttention& a = layer.attention;
    TENON_CHECK(a.num_heads > 0 && a.num_kv_heads > 0 && a.num_heads % a.num_kv_heads == 0,
                "num_key_value_heads ",
                a.num_kv_heads,
                " must divide num_attention_heads ",
                a.num_heads);
    if (!layer.feed_forward.experts.has_value()) {
      continue;
    }
    const DecoderExperts& e = *layer.feed_forward.experts;
    TENON_CHECK(e.per_token <= e.num_experts,
                "a token has ",
                e.per_token,
                " experts (num_experts_per_tok), but the model has ",
                e.num_experts);
    TENON_CHECK(e.num_experts % e.num_groups == 0,
                "the number of experts, ",
                e.num_experts,
                ", must be a multiple of the number of groups (n_group), ",
                e.num_groups);
    TENON_CHECK(e.chosen_groups <= e.num_groups &&
                    e.per_token * e.num_groups <= e.num_experts * e.chosen_groups,
                "topk_group ",
                e.chosen_groups,
                " of n_group ",
                e.num_groups,
                " groups must have num_experts_per_tok ",
                e.per_token,
                " experts");
  }
}

/* A decoder as a model. Models derive from Decoder<T> below.
 *
 * Errors   TENON_INVALID for tokens or positions out of range, with their place
 * Threads  as Model */
class DecoderModel : public GeneratingModel, public WeightsLayout {
 public:
  DecoderModel(const char* type, DecoderSpec spec, HfConfig config)
      : type_(type), spec_(std::move(spec)), config_(std::move(config)) {
    check_decoder(spec_);
  }

  void describe(TorchGraph& g) override {
    const DecoderSpec& s = spec_;
    const Axes hidden_axes = {"B", "T", s.width};
    DecoderParameters p(g, tensors_);
    std::vector<BufferId> tables;
    for (size_t i = 0; i < s.rotaries.size(); ++i) {
      const RotaryTable& table = s.rotaries[i];
      tables.push_back(g.constant(i == 0 ? "rotary" : "rotary." + std::to_string(i),
                                  table.shape(),
                                  TENON_F32,
                                  [table](at::Tensor& to) { table.fill(to); }));
    }
    const ValueId ids = g.input("input_ids", {"B", "T"}, TENON_I64);
    const ValueId positions = g.optional_input("position_ids", {"B", "T"}, TENON_I64);
    const ValueId segments = g.optional_input("segment_ids", {"B", "T"}, TENON_I64);

    ValueId x = g.value("hidden.0", hidden_axes);
    p.enter("", false);
    DecoderMatrix embedding{s.vocab_size, s.width, 0, s.vocab_size, s.initializer_range};
    embedding.flags = 0;
    p.matrix(s.names.embedding, embedding);
    if (s.has_positions) {
      DecoderMatrix learned{s.max_positions, s.width, 0, 0, s.initializer_range};
      learned.flags = 0;
      p.matrix(s.names.positions, learned);
    }
    g.block("embed",
            {ids, positions},
            {x},
            p.take(),
            [this](const BlockCall& b) {
              return dropped(b, run_embedding(b, 0), spec_.embedding_dropout);
            })
        .step(0, [this](const GenerationCall& c) { return run_embedding(c, c.first()); })
        .flags(TENON_BLOCK_CONTEXT | TENON_BLOCK_DIVISIBLE);
    blocks_ = {{Role::kEmbedding, 0}};
    const std::vector<ValueId> rows =
        s.memory.has_value() ? look_up_memory(g, *s.memory) : std::vector<ValueId>();
    for (size_t i = 0; i < s.layers.size(); ++i) {
      if (s.memory.has_value() && s.memory->is_before(i)) {
        x = describe_memory(g, p, i, x, rows);
      }
      x = describe_layer(g, p, i, x, segments, positions, tables);
    }
    blocks_.push_back({Role::kHead, 0});
    p.enter("", false);
    p.norm(s.names.final_norm, s.width, s.norm);
    std::vector<ParameterId> head = p.take();
    if (s.is_tied) {
      head.push_back(g.tied_parameter(s.names.head + ".weight", s.names.embedding + ".weight"));
    } else {
      p.matrix(s.names.head, {s.vocab_size, s.width, 0, s.vocab_size, s.initializer_range});
    }
    if (s.head_bias) {
      p.bias(s.names.head, s.vocab_size, s.vocab_size);
    }
    for (const ParameterId id : p.take()) {
      head.push_back(id);
    }
    g.block("head",
            {x},
            {g.value("logits",
                     {"B", "T", {"V", s.vocab_size}},
                     TENON_CLASS_COMPUTE,
                     {2, {s.vocab_size}, {s.vocab_size}})},
            head,
            [this](const BlockCall& b) { return run_head(b); })
        .flags(TENON_BLOCK_TOKENWISE | TENON_BLOCK_DIVISIBLE);
    if (has_token_logps()) {
      blocks_.push_back({Role::kHeadLogps, 0});
      const ValueId labels = g.optional_input("labels", {"B", "T"}, TENON_CLASS_INTEGER);
      g.block("head_logps",
              {x, labels},
              {g.value("token_logps", {"B", "T"}, TENON_CLASS_FLOAT)},
              head,
              [this](const BlockCall& b) { return run_head_logps(b); })
          .flags(TENON_BLOCK_TOKENWISE | TENON_BLOCK_DIVISIBLE);
    }
  }

  const void* extension(const char* id) override {
    const void* const layout = WeightsLayoutCalls<DecoderModel>::find(id);
    if (layout != nullptr) {
      return layout;
    }
    const void* const generation = GenerationCalls<DecoderModel>::find(id);
    return generation != nullptr ? generation : GeneratingModel::extension(id);
  }
  GenerationInfo generation_info() override {
    GenerationInfo info;
    info.max_positions = spec_.max_positions;
    return info;
  }
  void describe_layout(const std::string& layout, uint32_t dtype, LayoutBuilder& builder) override {
    check_layout(layout);
    if (spec_.memory.has_value()) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "decoder.memory",
                 "the layout \"hf\" has no memory of n-grams, and ",
                 type_,
                 " has one (`memory`); use the format weights, or --export-tables for rows");
    }
    for (const DecoderTensor& mapped : tensors_) {
      if ((mapped.flags & TENON_LAYOUT_SLICE) != 0) {
        builder.slice(mapped.tensor, mapped.parameter, mapped.index, mapped.flags);
      } else {
        builder.tensor(mapped.tensor, mapped.parameter, mapped.flags, mapped.first);
      }
    }
    if (spec_.is_tied) {
      builder.tensor(
          spec_.names.head + ".weight", spec_.names.embedding + ".weight", TENON_LAYOUT_ALIAS);
    }
    builder.file("config.json", config_.text(dtype));
  }
  void compare_layout(const std::string& layout,
                      const OptionReader& config,
                      LayoutDifferences& differences) override {
    check_layout(layout);
    config_.compare(config, differences);
  }

  void on_infer(const Exec& exec, tenon_infer_args& args) override {
    const BlockRole role = args.block < blocks_.size() ? blocks_[args.block] : BlockRole();
    const bool is_first = role.role == Role::kEmbedding;
    TENON_CHECK(args.block < blocks_.size() && args.num_inputs >= 1 && args.num_outputs == 1 &&
                    args.input_shapes[0] != nullptr && args.input_ndims[0] == (is_first ? 2U : 3U),
                "infer: block ",
                args.block,
                " of ",
                blocks_.size(),
                " called with unexpected inputs");
    const int64_t* const shape = args.input_shapes[0];
    const DecoderCost cost = cost_of(role, sizes(shape[0], shape[1], exec, args), args);
    args.out_flops = cost.flops;
    args.out_saved_bytes = cost.kept;
    args.out_working_bytes = cost.working;
    args.out_ndims[0] = role.role == Role::kHeadLogps ? 2 : 3;
    args.out_shapes[0][0] = shape[0];
    args.out_shapes[0][1] = shape[1];
    args.out_shapes[0][2] = role.role == Role::kHead ? spec_.vocab_size : spec_.width;
  }

 protected:
  const DecoderSpec& decoder() const { return spec_; }

 private:
  enum class Role { kEmbedding, kMemory, kAttention, kFeedForward, kHead, kHeadLogps };
  struct BlockRole {
    Role role = Role::kEmbedding;
    size_t layer = 0;
  };

  DecoderCost cost_of(const BlockRole& block,
                      const CostSizes& s,
                      const tenon_infer_args& args) const {
    switch (block.role) {
      case Role::kEmbedding:
        return embedding_cost(s, spec_);
      case Role::kMemory:
        return memory_cost(s, spec_);
      case Role::kAttention:
        return attention_cost(s, spec_, spec_.layers[block.layer]);
      case Role::kFeedForward:
        return feed_forward_cost(s, spec_, spec_.layers[block.layer]);
      case Role::kHead:
        return head_cost(s, spec_);
      case Role::kHeadLogps:
        break;
    }
    const bool has_labels = args.num_inputs > 1 && args.input_shapes[1] != nullptr;
    return has_labels ? head_logps_cost(s, spec_) : DecoderCost();
  }

  ValueId describe_memory(
      TorchGraph& g, DecoderParameters& p, size_t i, ValueId x, const std::vector<ValueId>& rows) {
    const std::string number = std::to_string(i);
    p.enter(spec_.names.layers + number + ".", spec_.names.is_transposed);
    declare_memory(p, spec_);
    const ValueId next = g.value("remembered." + number, {"B", "T", spec_.width});
    std::vector<ValueId> inputs = {x};
    inputs.insert(inputs.end(), rows.begin(), rows.end());
    g.block("layers." + number + ".memory",
            inputs,
            {next},
            p.take(),
            [this](const BlockCall& b) { return run_memory(b, spec_); })
        .unit("layers." + number)
        .flags(TENON_BLOCK_TOKENWISE);
    blocks_.push_back({Role::kMemory, i});
    return next;
  }

  ValueId describe_layer(TorchGraph& g,
                         DecoderParameters& p,
                         size_t i,
                         ValueId x,
                         ValueId segments,
                         ValueId positions,
                         const std::vector<BufferId>& tables) {
    const DecoderSpec& s = spec_;
    const DecoderLayer& layer = s.layers[i];
    const Axes axes = {"B", "T", s.width};
    const std::string unit = "layers." + std::to_string(i);
    p.enter(s.names.layers + std::to_string(i) + ".", s.names.is_transposed);
    declare_attention(p, s, layer);
    const std::vector<ParameterId> attention = p.take();
    const ValueId attended = g.value("attended." + std::to_string(i), axes);
    const bool is_rotated = layer.attention.rotary.has_value();
    const bool is_long = is_rotated && s.rotaries[*layer.attention.rotary].is_long();
    std::vector<ValueId> inputs = {x, segments};
    std::vector<BufferId> buffers;
    if (is_rotated) {
      inputs.push_back(positions);
      buffers.push_back(tables[*layer.attention.rotary]);
    }
    g.block(unit + ".attention",
            inputs,
            {attended},
            attention,
            [this, i](const BlockCall& b) { return run_attention(b, spec_, spec_.layers[i]); })
        .step(2,
              [this, i](const GenerationCall& c) {
                return step_attention(c, spec_, spec_.layers[i]);
              })
        .buffers(buffers)
        .unit(unit)
        // The choice of a long table follows from the positions of all ranks.
        .flags(TENON_BLOCK_DIVISIBLE | (is_long ? 0 : TENON_BLOCK_CONTEXT));
    blocks_.push_back({Role::kAttention, i});

    const bool is_parallel = s.placement == NormPlacement::kParallel;
    const size_t num_norm = s.norm == NormKind::kLayer ? 2 : 1;
    declare_feed_forward(
        p,
        s,
        layer,
        is_parallel ? std::vector<ParameterId>(attention.begin(),
                                               attention.begin() + static_cast<int64_t>(num_norm))
                    : std::vector<ParameterId>());
    const ValueId next = g.value("hidden." + std::to_string(i + 1), axes);
    buffers.clear();
    std::vector<int64_t> balances;
    uint32_t flags = TENON_BLOCK_TOKENWISE;
    if (layer.feed_forward.experts.has_value()) {
      const DecoderExperts& e = *layer.feed_forward.experts;
      if (e.balance_loss > 0.0 || e.z_loss > 0.0) {
        flags = TENON_BLOCK_CONTEXT;  // the losses are over all tokens
      }
      if (e.bias_step.has_value()) {
        const std::string name = s.names.layers + std::to_string(i) + "." + s.names.router_bias;
        buffers.push_back(
            g.state(name, {e.num_experts}, TENON_F32, [](at::Tensor& bias) { bias.zero_(); }));
        p.map_buffer(name);
      }
      if (e.moves_bias()) {
        buffers.push_back(g.step_sum(unit + ".expert_loads", {e.num_experts}, TENON_I64));
      }
      if (e.balance_loss > 0.0) {
        balances = {e.num_experts};
      }
    }
    auto block =
        g.block(unit + ".feed_forward",
                is_parallel ? std::vector<ValueId>{attended, x} : std::vector<ValueId>{attended},
                {next},
                p.take(),
                [this, i](const BlockCall& b) { return run_feed_forward(b, spec_, i); });
    block.step(0, [this, i](const GenerationCall& c) { return run_feed_forward(c, spec_, i); })
        .buffers(buffers)
        .unit(unit)
        .flags(flags | TENON_BLOCK_DIVISIBLE)
        .balance_losses(balances);
    if (layer.feed_forward.experts.has_value() && layer.feed_forward.experts->moves_bias()) {
      block.end_step([this, i](const EndStepCall& c) {
        move_expert_bias(c, *spec_.layers[i].feed_forward.experts);
      });
    }
    blocks_.push_back({Role::kFeedForward, i});
    return next;
  }

  // `first` is the position of the first token of each row without position_ids.
  template <class Call>
  at::Tensor run_embedding(const Call& b, int64_t first) const {
    const at::Tensor& ids_BT = b.input(0);
    const int64_t T = ids_BT.size(1);
    at::Tensor x;
    try {
      x = ops::tensor_out(
          ops::embedding_over(b.parameter(0), ops::tensor_in(ids_BT), spec_.vocab_size));
    } catch (const c10::IndexError&) {
      fail_token(ids_BT);
    }
    if (spec_.embedding_scale != 1.0) {
      x = x * spec_.embedding_scale;
    }
    if (b.has_input(1)) {
      check_positions(b.input(1));
    } else {
      TENON_CHECK(first + T <= spec_.max_positions,
                  "a sequence has ",
                  first + T,
                  " positions, but max_position_embeddings is ",
                  spec_.max_positions,
                  "; position ",
                  spec_.max_positions,
                  " is the first that does not exist");
    }
    if (!spec_.has_positions) {
      return x;
    }
    return x + (b.has_input(1) ? ops::embedding(b.parameter(1), b.input(1))
                               : b.parameter(1).narrow(0, first, T));
  }

  /* The operator token_logps has no bias and no softcap. */
  bool has_token_logps() const { return !spec_.head_bias && spec_.logit_softcap == 0.0; }
  at::Tensor run_head_logps(const BlockCall& b) const {
    const at::Tensor& x_BTD = b.input(0);
    if (!b.has_input(1)) {  // no position has a label
      const at::ScalarType wide = x_BTD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      return x_BTD.select(-1, 0).to(wide).mul(0.0);
    }
    ParameterCursor p(b);
    const at::Tensor normed = ops::tensor_in(p.norm(spec_.norm, spec_.norm_eps, x_BTD));
    return ops::token_logps_over(normed, p.take(), ops::tensor_in(b.input(1)), spec_.vocab_size);
  }
  at::Tensor run_head(const BlockCall& b) const {
    ParameterCursor p(b);
    const at::Tensor normed = ops::tensor_in(p.norm(spec_.norm, spec_.norm_eps, b.input(0)));
    const at::Tensor& weight = p.take();
    const at::Tensor logits = ops::linear(normed, {weight}, p.take_if(spec_.head_bias));
    const double cap = spec_.logit_softcap;
    return cap > 0.0 ? at::tanh(logits / cap) * cap : logits;
  }

  // Reports the first id without an embedding row. libtorch reports neither id nor position.
  [[noreturn]] void fail_token(const at::Tensor& ids_BT) const {
    const at::Tensor flat = ids_BT.reshape({-1});
    const int64_t index =
        flat.lt(0).logical_or(flat.ge(spec_.vocab_size)).to(at::kLong).argmax().item<int64_t>();
    TENON_FAIL(
        TENON_INVALID,
        "decoder.token",
        "token ",
        flat[index].item<int64_t>(),
        " at position ",
        index,
        " of input_ids ",
        ids_BT.sizes(),
        " is not in [0, ",
        spec_.vocab_size,
        "); set `vocab_size` to at least the tokenizer's, and `resize` of a load to add rows");
  }

  void check_positions(const at::Tensor& positions_BT) const {
    const at::Tensor flat = positions_BT.reshape({-1});
    const at::Tensor is_out = flat.lt(0).logical_or(flat.ge(spec_.max_positions));
    if (flat.numel() == 0 || !is_out.any().item<bool>()) {
      return;
    }
    const int64_t index = is_out.to(at::kLong).argmax().item<int64_t>();
    TENON_FAIL(TENON_INVALID,
               "decoder.position",
               "position ",
               flat[index].item<int64_t>(),
               " at place ",
               index,
               " of position_ids ",
               positions_BT.sizes(),
               " is not in [0, ",
               spec_.max_positions,
               "), the model's max_position_embeddings; shorten the sequences");
  }

  void check_layout(const std::string& layout) const {
    if (layout != "hf") {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "decoder.layout",
                 "unknown layout \"",
                 layout,
                 "\" of ",
                 type_,
                 "'s weights (available: \"hf\")");
    }
  }

  CostSizes sizes(int64_t samples,
                  int64_t positions,
                  const Exec& exec,
                  const tenon_infer_args& args) const {
    const bool on_cpu = exec.device().type == TENON_CPU;
    const auto device = on_cpu ? at::kCPU : at::kCUDA;
    const at::ScalarType dtype = scalar_type(exec.compute_dtype());
    CostSizes s;
    s.samples = static_cast<double>(samples);
    s.positions = static_cast<double>(positions);
    s.rows = s.samples * s.positions;
    if (TENON_HAS_FIELD(tenon_infer_args, &args, num_segments) && args.segment_lengths != nullptr) {
      s.lengths.assign(args.segment_lengths, args.segment_lengths + args.num_segments);
    }
    s.bytes = static_cast<double>(c10::elementSize(dtype));
    s.on_cpu = on_cpu;
    s.fused = ops::is_fused("attention", dtype, device);
    s.narrows = at::autocast::is_autocast_enabled(device);
    return s;
  }

  const char* type_;
  DecoderSpec spec_;
  HfConfig config_;
  std::vector<DecoderTensor> tensors_;
  std::vector<BlockRole> blocks_;  // in the order of `describe`
};

/* Base of the decoder T, which has
 *
 *     static DecoderSpec spec(const Options&);
 *     static HfConfig config(const Options&, const DecoderSpec&);
 *
 * and `using Decoder::Decoder`. */
template <class T>
class Decoder : public DecoderModel {
 public:
  /* `Model` delays the lookup of T's options until T is complete. */
  template <class Options,
            class Model = T,
            std::enable_if_t<std::is_same_v<Options, typename Model::Options>, int> = 0>
  explicit Decoder(const Options& options) : Decoder(options, T::spec(options)) {}

 private:
  template <class Options>
  Decoder(const Options& options, const DecoderSpec& spec)
      : DecoderModel(T::kType, spec, T::config(options, spec)) {}
};

TENON_NAMESPACE_END

#endif
