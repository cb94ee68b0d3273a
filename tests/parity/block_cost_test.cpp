// SPDX-License-Identifier: Apache-2.0
//
// What models say that their blocks keep, against what an allocator counts when they run.
#include "host/train/plan/block_cost.hpp"

#include "host/device/block_cache.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kSamples = 4;
constexpr int64_t kPositions = 128;

// Bytes that are there after a forward and were not before it: outputs and what is kept.
int64_t measured(const std::string& type,
                 const std::string& options,
                 at::ScalarType dtype,
                 const std::map<std::string, at::Tensor>& fields,
                 const std::map<std::string, at::Tensor>& rows = {}) {
  ModelRig rig(type, options, dtype);
  for (const auto& [value, tensor] : rows) {
    rig.set_rows(value, tensor);
  }
  const int64_t before = cpu_tensor_memory().bytes;
  rig.forward(fields);
  return cpu_tensor_memory().bytes - before;
}

int64_t planned(const std::string& type,
                const std::string& options,
                at::ScalarType dtype,
                const std::map<std::string, at::Tensor>& fields) {
  ModelProxy model(make_component("model", type, options));
  const ModelGraph graph = describe_model(model);
  CostQuestion question;
  for (const auto& [name, tensor] : fields) {
    question.fields.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    question.num_samples = tensor.size(0);
  }
  question.stored = dtype;
  question.seen = dtype;
  question.is_trainable = [](uint32_t) { return true; };
  question.base.compute_dtype = dtype;
  int64_t bytes = 0;
  for (const BlockCost& cost : block_costs(model, graph, question)) {
    CHECK(cost.source == BlockCost::Source::kDeclared);
    bytes += cost.output_bytes + cost.saved_bytes;
  }
  return bytes;
}

bool is_counted() {
  use_block_cache();
  const at::Tensor some = at::empty({1 << 20});
  return cpu_tensor_memory().bytes > 0;
}

std::string llama_options(int layers, int64_t kv_heads, const std::string& more) {
  return R"({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704,
             "num_attention_heads": 4, "num_hidden_layers": )" +
         std::to_string(layers) + R"(, "num_key_value_heads": )" + std::to_string(kv_heads) + more +
         "}";
}

bool is_near_measured(int64_t planned, int64_t measured) {
  return std::abs(static_cast<double>(planned - measured)) <= 0.01 * static_cast<double>(measured);
}

}  // namespace

TEST_CASE("llama keeps for its backward what it says", "[parity]") {
  if (!is_counted()) {
    TENON_SKIP("built with a sanitizer, under which nothing is counted");
  }
  const std::map<std::string, at::Tensor> fields = {
      {"input_ids", at::randint(1000, {kSamples, kPositions}, at::kLong)}};
  struct Case {
    const char* name;
    const char* more;
    int64_t kv_heads;
    at::ScalarType dtype;
    const char* kernels = "auto";
  };
  for (const Case& c : {Case{"fused", "", 4, at::kFloat},
                        Case{"fused, grouped queries", "", 2, at::kFloat},
                        Case{"fused, tied", R"(, "tie_word_embeddings": true)", 4, at::kFloat},
                        Case{"plain", "", 4, at::kFloat, "plain"},
                        Case{"plain, grouped queries", "", 2, at::kFloat, "plain"},
                        Case{"fp64", "", 4, at::kDouble},
                        Case{"bf16", "", 4, at::kBFloat16},
                        Case{"bf16, grouped queries", "", 2, at::kBFloat16},
                        Case{"dropout", R"(, "dropout": 0.1)", 4, at::kFloat}}) {
    const PolicyScope use(all_kernels(c.kernels));
    const auto both = [&](int layers) {
      const std::string options = llama_options(layers, c.kv_heads, c.more);
      return std::pair(planned("llama", options, c.dtype, fields),
                       measured("llama", options, c.dtype, fields));
    };
    const auto [planned_1, measured_1] = both(1);
    const auto [planned_3, measured_3] = both(3);
    CAPTURE(c.name, planned_1, measured_1);
    const int64_t planned_layer = (planned_3 - planned_1) / 2;
    const int64_t measured_layer = (measured_3 - measured_1) / 2;
    CAPTURE(planned_layer, measured_layer);
    CHECK(is_near_measured(planned_layer, measured_layer));
    CHECK(is_near_measured(planned_1 - planned_layer, measured_1 - measured_layer));
  }
}

TEST_CASE("each decoder's layers keep for their backward what they say", "[parity]") {
  if (!is_counted()) {
    TENON_SKIP("built with a sanitizer, under which nothing is counted");
  }
  const std::map<std::string, at::Tensor> fields = {
      {"input_ids", at::randint(1000, {kSamples, kPositions}, at::kLong)}};
  const std::string sizes =
      R"("vocab_size": 1000, "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4)";
  const std::string experts = R"(, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0)";
  struct Case {
    const char* model;
    std::string options;
    const char* layers = "num_hidden_layers";
  };
  for (const Case& c :
       {Case{"qwen2", sizes + R"(, "num_key_value_heads": 2)"},
        Case{"qwen3", sizes + R"(, "num_key_value_heads": 2, "head_dim": 96)"},
        Case{"gemma2", sizes + R"(, "num_key_value_heads": 4, "head_dim": 64)"},
        Case{"gemma3", sizes + R"(, "num_key_value_heads": 2, "head_dim": 64)"},
        Case{"gpt2",
             R"("vocab_size": 1000, "n_embd": 256, "n_head": 4, "embd_pdrop": 0.0,
                "attn_pdrop": 0.0, "resid_pdrop": 0.0)",
             "n_layer"},
        Case{"phi", sizes},
        Case{"olmo2", sizes},
        Case{"mixtral", sizes + experts + R"(, "num_key_value_heads": 2, "num_local_experts": 6)"},
        Case{"deepseek_v3",
             sizes + experts +
                 R"(, "n_routed_experts": 8, "n_group": 2, "topk_group": 1, "q_lora_rank": 96,
                    "kv_lora_rank": 64, "qk_nope_head_dim": 48, "qk_rope_head_dim": 16,
                    "v_head_dim": 40, "moe_intermediate_size": 128, "first_k_dense_replace": 0)"}}) {
    const auto both = [&](int layers) {
      const std::string options =
          "{" + c.options + ", \"" + c.layers + "\": " + std::to_string(layers) + "}";
      return std::pair(planned(c.model, options, at::kFloat, fields),
                       measured(c.model, options, at::kFloat, fields));
    };
    const auto [planned_1, measured_1] = both(1);
    const auto [planned_3, measured_3] = both(3);
    CAPTURE(c.model, planned_1, measured_1, planned_3, measured_3);
    CHECK(std::abs(static_cast<double>(planned_3 - planned_1 - measured_3 + measured_1)) <=
          0.03 * static_cast<double>(measured_3 - measured_1));
  }
}

TEST_CASE("a memory keeps for its backward what it says", "[parity]") {
  if (!is_counted()) {
    TENON_SKIP("built with a sanitizer, under which nothing is counted");
  }
  const std::map<std::string, at::Tensor> fields = {
      {"input_ids", at::randint(1000, {kSamples, kPositions}, at::kLong)}};
  const std::string options = llama_options(2, 4, "");
  const std::string with =
      llama_options(2, 4, R"(, "memory": {"columns": ["a", "b"], "dim": 48, "layers": [0, 1]})");
  for (const char* const kernels : {"auto", "plain"}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const PolicyScope use(all_kernels(kernels));
      const at::Tensor rows = at::zeros({kSamples, kPositions, 48}, dtype);
      const int64_t plan =
          planned("llama", with, dtype, fields) - planned("llama", options, dtype, fields);
      const int64_t real =
          measured("llama", with, dtype, fields, {{"memory.a", rows}, {"memory.b", rows}}) -
          measured("llama", options, dtype, fields);
      CAPTURE(kernels, dtype, plan, real);
      CHECK(std::abs(static_cast<double>(plan - real)) <= 0.03 * static_cast<double>(real));
    }
  }
}

TEST_CASE("mlp keeps for its backward what it says", "[parity]") {
  if (!is_counted()) {
    TENON_SKIP("built with a sanitizer, under which nothing is counted");
  }
  const std::map<std::string, at::Tensor> fields = {{"x", at::randn({2048, 64})}};
  for (const char* const activation : {"relu", "tanh", "gelu", "silu"}) {
    for (const char* const dropout : {"0.0", "0.2"}) {
      const std::string options =
          R"({"in_features": 64, "hidden": [256, 512], "out_features": 128, "activation": ")" +
          std::string(activation) + R"(", "dropout": )" + dropout + "}";
      const int64_t plan = planned("mlp", options, at::kFloat, fields);
      const int64_t real = measured("mlp", options, at::kFloat, fields);
      CAPTURE(activation, dropout, plan, real);
      CHECK(is_near_measured(plan, real));
    }
  }
}

}  // namespace tenon
