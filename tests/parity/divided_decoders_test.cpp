// SPDX-License-Identifier: Apache-2.0
//
// Decoders whose blocks several tensor ranks compute together, against the same decoders on one
// rank: all outputs, the gradients of all parameters, adapters, and steps of generation. Ranks are
// threads; each has the graph of a smaller model (cut_graph.hpp).
#include "host/kernels/tensor_region.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/parametrized_graph.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/parity/cut_graph.hpp"
#include "tests/parity/decoder_fill.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_tensor_ranks.hpp"

namespace tenon {
namespace {

constexpr int64_t kVocabulary = 48;

struct Kind {
  const char* name;
  const char* model;
  std::string options;  // beside the sizes of all
};

std::string options_of(const Kind& kind) {
  if (std::string(kind.model) == "tensor_lm") {
    return "{}";
  }
  if (std::string(kind.model) == "gpt2") {
    return R"({"vocab_size": 48, "n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 8,
               "n_inner": 20, "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0})";
  }
  return R"({"vocab_size": 48, "hidden_size": 32, "intermediate_size": 20,
             "num_hidden_layers": 2, "max_position_embeddings": 40, "rope_theta": 1000)" +
         kind.options + "}";
}

const std::vector<Kind>& kinds() {
  static const std::string gqa = R"(, "num_attention_heads": 8, "num_key_value_heads": 2)";
  static const std::string latent =
      R"(, "num_attention_heads": 4, "kv_lora_rank": 10, "qk_nope_head_dim": 5,
         "qk_rope_head_dim": 4, "v_head_dim": 7, "n_routed_experts": 6, "n_group": 3,
         "topk_group": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
         "first_k_dense_replace": 1, "n_shared_experts": 1)";
  static const std::vector<Kind> all = {
      {"heads of keys, two ranks each", "llama", gqa},
      {"one head of keys, tied",
       "llama",
       R"(, "num_attention_heads": 4, "num_key_value_heads": 1, "tie_word_embeddings": true)"},
      {"biases of queries, keys and values", "qwen2", gqa},
      {"norms by head", "qwen3", gqa + R"(, "head_dim": 6)"},
      {"wide norms after each part, all biases", "olmo2", gqa + R"(, "attention_bias": true)"},
      {"norms on both sides, softcaps",
       "gemma2",
       gqa + R"(, "head_dim": 6, "sliding_window": 5, "final_logit_softcapping": 3.0,
               "attn_logit_softcapping": 4.0, "query_pre_attn_scalar": 7)"},
      {"norms by head, tables of two kinds",
       "gemma3",
       gqa + R"(, "head_dim": 6, "sliding_window": 5, "rope_local_base_freq": 50)"},
      {"fused, biases, learned positions", "gpt2", ""},
      {"fused with fewer heads of keys",
       "fused_lm",
       R"(, "num_attention_heads": 8, "num_key_value_heads": 2)"},
      {"parallel halves, a bias of the head", "phi", gqa + R"(, "qk_layernorm": true)"},
      {"a table that depends on the length",
       "phi3",
       gqa + R"(, "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 1.5],
               "long_factor": [2.0, 3.0], "original_max_position_embeddings": 6})"},
      {"experts", "mixtral", gqa + R"(, "num_local_experts": 4, "num_experts_per_tok": 2,
               "router_aux_loss_coef": 0.0)"},
      {"experts with a loss, norms by head",
       "qwen3_moe",
       gqa + R"(, "head_dim": 6, "moe_intermediate_size": 12, "num_experts": 5,
               "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0)"},
      {"latent attention, a shared expert",
       "deepseek_v3",
       latent + R"(, "q_lora_rank": 12, "attention_bias": true)"},
      {"latent attention, queries not compressed",
       "deepseek_v3",
       latent + R"(, "q_lora_rank": null)"}};
  return all;
}

using Edit = std::function<void(ModelGraph&)>;

std::unique_ptr<ModelRig> make_rig(const Kind& kind, RecomputeMode recompute, const Edit& edit) {
  std::vector<std::string> outputs;
  {
    ModelProxy proxy(make_component("model", kind.model, options_of(kind)));
    outputs = describe_model(proxy).output_names();
  }
  return std::make_unique<ModelRig>(
      kind.model, options_of(kind), at::kDouble, recompute, outputs, edit);
}

// One model whole, and its parts on `size` ranks.
class Divided {
 public:
  Divided(const Kind& kind, uint32_t size, RecomputeMode recompute, const Edit& edit = {})
      : size_(size),
        board_(size),
        whole_(make_rig(kind, recompute, [&](ModelGraph& graph) { edited(graph, edit); })) {
    const bool is_gemma = std::string(kind.model).starts_with("gemma");
    for (int64_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(make_rig(kind, recompute, [&](ModelGraph& graph) {
        edited(graph, edit);
        cut_graph(graph, {rank, size});
      }));
    }
    for (const ModelParameter& p : graph().parameters) {
      if (p.same_as == kNoIndex) {
        set_parameter(p.name, filled_weight(p.name, p.shape, is_gemma));
      }
    }
    for (const ModelBuffer& b : graph().buffers) {
      if (b.kind == TENON_BUFFER_STATE) {
        whole_->buffer(b.name).copy_(filled_weight(b.name, b.shape, is_gemma));
        for (const auto& rig : ranks_) {
          rig->buffer(b.name).copy_(whole_->buffer(b.name));
        }
      }
    }
  }

  const ModelGraph& graph() const { return whole_->graph(); }
  ModelRig& whole() { return *whole_; }
  ModelRig& rank(int64_t r) { return *ranks_[static_cast<size_t>(r)]; }
  TensorRank place(int64_t r) const { return {r, size_}; }
  uint32_t size() const { return size_; }

  void set_parameter(const std::string& name, const at::Tensor& value) {
    whole_->set_parameter(name, value);
    for (int64_t r = 0; r < size_; ++r) {
      rank(r).set_parameter(name, cut(value, parameter(name).split, place(r)));
    }
  }

  const ModelParameter& parameter(const std::string& name) const {
    return *std::ranges::find(graph().parameters, name, &ModelParameter::name);
  }
  const ModelValue& value(const std::string& name) const {
    return *std::ranges::find(graph().values, name, &ModelValue::name);
  }

  void run(const std::function<void(int64_t rank)>& body) {
    run_tensor_ranks(board_, {}, [&](const TensorRegionPtr& region) {
      const TensorRegionScope scope(region);
      body(region->ranks->rank());
    });
  }

  // One pass on all ranks and whole, with gradients of these outputs.
  void step(const std::map<std::string, at::Tensor>& fields,
            const std::vector<std::pair<std::string, at::Tensor>>& grads) {
    whole_->forward(fields);
    whole_outputs_ = outputs_of(*whole_);
    whole_->backward(grads);
    rank_outputs_.assign(size_, {});
    run([&](int64_t r) {
      std::vector<std::pair<std::string, at::Tensor>> parts;
      for (const auto& [name, grad] : grads) {
        parts.emplace_back(name, cut(grad, value(name).split, place(r)).contiguous());
      }
      rank(r).forward(fields);
      rank_outputs_[static_cast<size_t>(r)] = outputs_of(rank(r));
      rank(r).backward(parts);
    });
  }

  // What the last step made: values that the run keeps after the forward.
  const std::map<std::string, at::Tensor>& whole_outputs() const { return whole_outputs_; }
  const at::Tensor& rank_output(int64_t r, const std::string& name) const {
    return rank_outputs_[static_cast<size_t>(r)].at(name);
  }

  // The gradient of the whole from those of the ranks. What is neither divided nor inside of a
  // region has the whole gradient on each.
  at::Tensor joined_grad(const std::string& name) {
    const ModelParameter& p = parameter(name);
    if (!p.split.has_value() && (p.flags & TENON_PARAM_INSIDE) == 0) {
      for (int64_t r = 1; r < size_; ++r) {
        REQUIRE(at::equal(rank(r).grad(name), rank(0).grad(name)));
      }
      return rank(0).grad(name);
    }
    at::Tensor sum = at::zeros(p.shape, at::kDouble);
    for (int64_t r = 0; r < size_; ++r) {
      if (p.split.has_value()) {
        add_part(sum, rank(r).grad(name), *p.split, place(r));
      } else {
        sum.add_(rank(r).grad(name));
      }
    }
    return sum;
  }

 private:
  static std::map<std::string, at::Tensor> outputs_of(ModelRig& rig) {
    std::map<std::string, at::Tensor> all;
    for (const std::string& name : rig.graph().output_names()) {
      if (const at::Tensor value = rig.output(name); value.defined()) {
        all[name] = value.detach().clone();
      }
    }
    return all;
  }

  static void edited(ModelGraph& graph, const Edit& edit) {
    drop_unused_splits(graph);
    if (edit) {
      edit(graph);
    }
  }

  uint32_t size_;
  TensorBoard board_;
  std::unique_ptr<ModelRig> whole_;
  std::vector<std::unique_ptr<ModelRig>> ranks_;
  std::map<std::string, at::Tensor> whole_outputs_;
  std::vector<std::map<std::string, at::Tensor>> rank_outputs_;
};

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

std::vector<std::pair<std::string, at::Tensor>> output_grads(Divided& of, at::IntArrayRef rows) {
  std::vector<std::pair<std::string, at::Tensor>> grads;
  const std::vector<int64_t> all = {rows[0], rows[1], kVocabulary};
  grads.emplace_back("logits", filled("logits", all));
  if (of.graph().find_output("token_logps")) {
    grads.emplace_back("token_logps", filled("token_logps", rows.vec()));
  }
  return grads;
}

// Rows of two packed documents each, with labels of which some are ignored.
std::map<std::string, at::Tensor> packed_fields(int64_t B, int64_t T) {
  at::Tensor positions = at::arange(T, at::kLong);
  positions.narrow(0, T - 3, 3).copy_(at::arange(3, at::kLong));
  const at::Tensor segments = at::arange(T, at::kLong).ge(T - 3).to(at::kLong);
  at::Tensor labels = (filled_tokens(B, T, kVocabulary) * 5 + 1).remainder(kVocabulary);
  labels = labels.masked_fill(labels.remainder(4).eq(1), -100);
  return {{"input_ids", filled_tokens(B, T, kVocabulary)},
          {"position_ids", positions.repeat({B, 1})},
          {"segment_ids", segments.repeat({B, 1})},
          {"labels", labels}};
}

void check_equal(Divided& of, double most) {
  REQUIRE(of.whole_outputs().count("logits") == 1);
  for (const auto& [name, whole] : of.whole_outputs()) {
    CAPTURE(name);
    for (int64_t r = 0; r < of.size(); ++r) {
      const at::Tensor expected = cut(whole, of.value(name).split, of.place(r));
      CHECK(relative_difference(of.rank_output(r, name), expected) < most);
    }
  }
  for (const ModelParameter& p : of.graph().parameters) {
    if (p.same_as == kNoIndex && (p.flags & TENON_PARAM_FROZEN) == 0) {
      CAPTURE(p.name);
      CHECK(relative_difference(of.joined_grad(p.name), of.whole().grad(p.name)) < most);
    }
  }
}

// A rank's model with caches, and the parameters of `rig`.
struct CachedRank {
  CachedRank(const Kind& kind, TensorRank of, ModelRig& rig)
      : proxy(make_component("model", kind.model, options_of(kind))),
        graph(described(proxy, of)),
        store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0U; }}) {
    base.compute_dtype = at::kDouble;
    base.tensors = tensor_service();
    base.ops = op_service();
    const ExecFrame frame(proxy.instance().host(), base);
    store.initialise(proxy, frame.exec(), 7);
    const at::AutoGradMode no_grad(false);
    for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
      if (graph.parameters[p].same_as == kNoIndex) {
        store.leaf(p).detach().copy_(rig.parameter(graph.parameters[p].name));
      }
    }
    for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
      if (graph.buffers[b].kind == TENON_BUFFER_STATE) {
        store.buffer(b).copy_(rig.buffer(graph.buffers[b].name));
      }
    }
    generation = GenerationProxy::of(proxy.instance());
    if (generation.has_value()) {
      sequence = cached_sequence(proxy, store, base, *generation, 20);
    }
  }

  static ModelGraph described(ModelProxy& proxy, TensorRank of) {
    ModelGraph graph = describe_model(proxy);
    drop_unused_splits(graph);
    cut_graph(graph, of);
    return graph;
  }

  ModelProxy proxy;
  ModelGraph graph;
  ParameterStore store;
  ExecBase base;
  std::optional<GenerationProxy> generation;
  std::unique_ptr<SequenceRunner> sequence;  // null if the model does not generate
};

size_t num_split(const ModelGraph& graph) {
  return static_cast<size_t>(std::ranges::count_if(
      graph.parameters, [](const ModelParameter& p) { return p.split.has_value(); }));
}

}  // namespace

TEST_CASE("decoders on several tensor ranks equal one rank", "[parity]") {
  const Kind& kind = kinds()[GENERATE(range<size_t>(0, kinds().size()))];
  const auto size = GENERATE(2U, 4U);
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  CAPTURE(kind.name, size, recompute == RecomputeMode::kBlocks);
  Divided of(kind, size, recompute);
  REQUIRE(num_split(of.graph()) >= 10);
  for (const auto& fields :
       {std::map<std::string, at::Tensor>{{"input_ids", filled_tokens(2, 5, kVocabulary)},
                                          {"labels", filled_tokens(2, 5, kVocabulary)}},
        packed_fields(2, 9)}) {
    of.step(fields, output_grads(of, fields.at("input_ids").sizes()));
    check_equal(of, 1e-12);
  }
}

TEST_CASE("the guide's example on several tensor ranks equals one rank", "[parity]") {
  const auto size = GENERATE(2U, 4U);
  Divided of({"the guide's example", "tensor_lm", ""}, size, RecomputeMode::kNone);
  CHECK(num_split(of.graph()) == 6);
  of.step({{"input_ids", filled_tokens(2, 7, 16)}}, {{"logits", filled("logits", {2, 7, 16})}});
  check_equal(of, 1e-12);
}

TEST_CASE("adapters are divided with their base", "[parity]") {
  const std::string type = GENERATE("lora", "rslora", "dora", "row_scale");
  const std::string base = GENERATE("full", "bf16");
  const bool has_products = GENERATE(true, false);
  const auto size = GENERATE(2U, 4U);
  if (type == "row_scale" && base == "bf16") {
    return;
  }
  const Kind kind = kinds()[GENERATE(size_t{0}, size_t{8}, size_t{13})];
  CAPTURE(kind.name, type, base, has_products, size);
  const std::string options =
      type == "row_scale" ? "{}" : R"({"rank": 3, "alpha": 5, "base": ")" + base + "\"}";
  const auto adapt = [&](ModelGraph& graph) {
    const size_t num_parameters = graph.parameters.size();
    for (uint32_t p = 0; p < num_parameters; ++p) {
      const bool is_projection = graph.parameters[p].name.ends_with("_proj.weight") &&
                                 graph.parameters[p].shape.size() == 2;
      if (is_projection) {
        if (!has_products) {
          graph.parameters[p].flags &= ~uint32_t{TENON_PARAM_LINEAR};
        }
        parametrize(graph, p, make_component("parametrization", type, options));
      }
    }
    REQUIRE(graph.parametrizations.size() >= 8);
  };
  Divided of(kind, size, RecomputeMode::kNone, adapt);
  size_t num_inside = 0;
  for (const ModelParameter& p : of.graph().parameters) {
    if (p.name.find(".lora_") != std::string::npos || p.name.ends_with(".factor")) {
      of.set_parameter(p.name, filled("again " + p.name, p.shape) * 0.3 + 0.2);
      num_inside += (p.flags & TENON_PARAM_INSIDE) != 0 ? 1 : 0;
    }
  }
  CHECK(num_inside >= 4);
  const auto fields = packed_fields(2, 9);
  of.step(fields, output_grads(of, fields.at("input_ids").sizes()));
  check_equal(of, 1e-12);
}

TEST_CASE("the host divides decoders and their adapters as they declare it", "[parity]") {
  const Kind& kind = kinds()[GENERATE(range<size_t>(0, kinds().size()))];
  const auto size = GENERATE(2U, 4U);
  CAPTURE(kind.name, size);
  ModelProxy proxy(make_component("model", kind.model, options_of(kind)));
  ModelGraph declared = describe_model(proxy);
  const size_t num_parameters = declared.parameters.size();
  for (uint32_t p = 0; p < num_parameters; ++p) {
    if ((declared.parameters[p].flags & TENON_PARAM_LINEAR) != 0 &&
        declared.parameters[p].same_as == kNoIndex) {
      parametrize(declared, p, make_component("parametrization", "lora", R"({"rank": 3})"));
    }
  }
  for (uint32_t r = 0; r < size; ++r) {
    ModelGraph graph = declared;
    divide_graph(graph, {.index = r, .count = size}, IndivisibleBlocks::kRefuse);
    CHECK(std::ranges::all_of(graph.blocks, &ModelBlock::is_divided));
    ModelGraph expected = declared;
    cut_graph(expected, {r, size});
    for (size_t p = 0; p < graph.parameters.size(); ++p) {
      CAPTURE(graph.parameters[p].name);
      CHECK(graph.parameters[p].shape_in_block() == expected.parameters[p].shape);
    }
    for (size_t k = 0; k < graph.parametrizations.size(); ++k) {
      CHECK(graph.parametrizations[k].shape_in_block() ==
            expected.parametrizations[k].shape_in_block());
    }
  }
}

TEST_CASE("adapters that have no parts are refused, or their blocks run whole", "[parity]") {
  const std::string options =
      GENERATE(R"({"base": "int8"})", R"({"base": "nf4"})", R"({"dropout": 0.1})");
  const Kind& kind = kinds()[0];
  ModelProxy proxy(make_component("model", kind.model, options_of(kind)));
  ModelGraph graph = describe_model(proxy);
  const auto output = std::ranges::find(
      graph.parameters, "model.layers.0.self_attn.o_proj.weight", &ModelParameter::name);
  const auto p = static_cast<uint32_t>(output - graph.parameters.begin());
  parametrize(graph, p, make_component("parametrization", "lora", options));
  CHECK_THAT(error_of([copy = graph]() mutable {
               divide_graph(copy, {.index = 0, .count = 2}, IndivisibleBlocks::kRefuse);
             }),
             contains_text("[model.indivisible] /parallel/tensor 2 cannot divide parameter "
                           "'model.layers.0.self_attn.o_proj.weight' of block "
                           "'layers.0.attention': parametrization \"lora\"") &&
                 contains_text("declares no division along axis 1"));
  divide_graph(graph, {.index = 0, .count = 2}, IndivisibleBlocks::kRunWhole);
  for (const ModelBlock& block : graph.blocks) {
    CHECK(block.is_divided == (block.name != "layers.0.attention"));
  }
}

TEST_CASE("decoders on several tensor ranks generate as one rank does", "[parity]") {
  const Kind& kind = kinds()[GENERATE(range<size_t>(0, kinds().size()))];
  const auto size = GENERATE(2U, 4U);
  CAPTURE(kind.name, size);
  Divided of(kind, size, RecomputeMode::kNone);
  std::vector<std::unique_ptr<CachedRank>> ranks;
  for (int64_t r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<CachedRank>(kind, of.place(r), of.rank(r)));
    if (!ranks.back()->sequence) {
      CHECK(std::string(kind.model) == "phi3");
      return;
    }
  }
  const at::Tensor ids = filled_tokens(1, 11, kVocabulary);
  int64_t done = 0;
  for (const int64_t n : {4, 1, 5, 1}) {
    const at::Tensor step = ids[0].narrow(0, done, n);
    const std::vector<int64_t> tokens(step.const_data_ptr<int64_t>(),
                                      step.const_data_ptr<int64_t>() + n);
    done += n;
    of.whole().forward({{"input_ids", ids.narrow(1, 0, done)}}, {1, 0, false});
    const at::Tensor expected = of.whole().output("logits")[0][done - 1];
    std::vector<at::Tensor> found(size);
    of.run([&](int64_t r) {
      const at::AutoGradMode no_grad(false);
      found[static_cast<size_t>(r)] = ranks[static_cast<size_t>(r)]->sequence->append(tokens);
    });
    std::optional<ModelSplit> split = of.value("logits").split;
    if (split.has_value()) {
      split->axis = 0;
    }
    CAPTURE(done);
    for (int64_t r = 0; r < size; ++r) {
      CHECK(relative_difference(found[static_cast<size_t>(r)], cut(expected, split, of.place(r))) <
            1e-12);
    }
  }
}

}  // namespace tenon
