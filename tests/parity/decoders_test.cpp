// SPDX-License-Identifier: Apache-2.0
//
// The decoder plugins against transformers (decoders_golden.py made the data): logits, gradients,
// the tensors of files, config.json. And against themselves: packed sequences are the sequences.
#include "host/model/sequence_runner.hpp"
#include "host/plugin/generation_proxy.hpp"
#include "host/plugin/weights_layout_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/train/weights/layout_map.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/parity/decoder_fill.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors.hpp"

namespace tenon {
namespace {

const std::vector<std::string> kCases = {"llama",
                                         "qwen2",
                                         "qwen3",
                                         "mistral",
                                         "gemma2",
                                         "gemma3",
                                         "gpt2",
                                         "phi",
                                         "phi_norms",
                                         "phi3_long",
                                         "phi3_short",
                                         "qwen3_moe",
                                         "mixtral",
                                         "deepseek_v3",
                                         "deepseek_v3_full",
                                         "olmo2"};

struct Case {
  explicit Case(const std::string& name)
      : golden(read_safetensors(source_dir() / "tests/parity/decoders" / (name + ".safetensors"))),
        model(golden.metadata.at("model")),
        options(golden.metadata.at("options")),
        positions(std::stoll(golden.metadata.at("positions"))),
        vocabulary(nlohmann::json::parse(options).at("vocab_size").get<int64_t>()) {}

  // The model with its weights by formula.
  std::unique_ptr<ModelRig> rig(at::ScalarType dtype,
                                RecomputeMode recompute = RecomputeMode::kNone) const {
    auto made = std::make_unique<ModelRig>(model, options, dtype, recompute);
    fill(*made);
    return made;
  }
  void fill(ModelRig& rig) const {
    const bool is_gemma = model.rfind("gemma", 0) == 0;
    for (const ModelParameter& p : rig.graph().parameters) {
      if (p.same_as == kNoIndex) {
        rig.set_parameter(p.name, filled_weight(p.name, p.shape, is_gemma));
      }
    }
    for (const ModelBuffer& b : rig.graph().buffers) {
      if (b.kind == TENON_BUFFER_STATE) {
        rig.buffer(b.name).copy_(filled_weight(b.name, b.shape, is_gemma));
      }
    }
  }

  GoldenData golden;
  std::string model;
  std::string options;
  int64_t positions;
  int64_t vocabulary;
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

std::map<std::string, at::Tensor> gradients(ModelRig& rig) {
  std::map<std::string, at::Tensor> all;
  for (const ModelParameter& p : rig.graph().parameters) {
    if (p.same_as == kNoIndex) {
      all[p.name] = rig.grad(p.name).clone();
    }
  }
  return all;
}

}  // namespace

TEST_CASE("decoders give the logits and gradients of transformers", "[parity]") {
  const std::string name = kCases[GENERATE(range<size_t>(0, kCases.size()))];
  const Case of(name);
  const at::Tensor ids = filled_tokens(2, of.positions, of.vocabulary);
  const at::Tensor& kept = of.golden.at("logits");
  struct Way {
    const char* kernels;
    RecomputeMode recompute;
    at::ScalarType dtype;
  };
  for (const Way& way : {Way{"auto", RecomputeMode::kNone, at::kFloat},
                         Way{"auto", RecomputeMode::kBlocks, at::kFloat},
                         Way{"plain", RecomputeMode::kNone, at::kFloat},
                         Way{"auto", RecomputeMode::kNone, at::kDouble}}) {
    CAPTURE(name, way.kernels, way.recompute == RecomputeMode::kBlocks, way.dtype == at::kDouble);
    const PolicyScope use(all_kernels(way.kernels));
    const auto made = of.rig(way.dtype, way.recompute);
    ModelRig& rig = *made;
    rig.forward({{"input_ids", ids}});
    const at::Tensor logits = rig.output("logits");
    CHECK(largest_difference(logits.narrow(1, logits.size(1) - kept.size(1), kept.size(1)), kept) /
              std::max(1.0, kept.abs().max().item<double>()) <
          1e-5);
    rig.backward("logits", filled("logits", logits.sizes().vec()).to(way.dtype));
    size_t num_grads = 0;
    for (const auto& [parameter, found] : gradients(rig)) {
      CAPTURE(parameter);
      const at::Tensor& expected = of.golden.at("grad/" + parameter);
      const double scale = std::max(1.0, expected.abs().max().item<double>());
      CHECK(largest_difference(found, expected) / scale < 1e-5);
      ++num_grads;
    }
    CHECK(num_grads + 1 == of.golden.tensors.size());
  }
}

TEST_CASE("decoders store their weights as transformers does, and read its config.json",
          "[parity]") {
  const std::string name = kCases[GENERATE(range<size_t>(0, kCases.size()))];
  CAPTURE(name);
  const Case of(name);
  ModelProxy model(make_component("model", of.model, of.options));
  const ModelGraph graph = describe_model(model);
  const LayoutMap map = layout_map_of(model.instance(), graph, "hf", TENON_F32);
  std::map<std::string, std::vector<int64_t>> found;
  for (const MappedTensor& tensor : map.tensors) {
    if (!tensor.is_alias) {
      found[tensor.name] = tensor.shape;
    }
  }
  const std::map<std::string, std::vector<int64_t>> expected =
      nlohmann::json::parse(of.golden.metadata.at("tensors"));
  CHECK(found == expected);

  const WeightsLayoutProxy layout = WeightsLayoutProxy::of(model.instance()).value();
  const auto differences = [&](const std::string& config) {
    std::string text;
    for (const LayoutDifference& d : layout.compare("hf", config)) {
      text += d.option + " " + d.here + " " + d.there + "; ";
    }
    return text;
  };
  const std::string theirs = of.golden.metadata.at("config");
  CHECK(differences(theirs).empty());
  REQUIRE(map.files.size() == 1);
  CHECK(differences(map.files[0].text).empty());
  CHECK(map.files[0].text.find("\"float32\"") != std::string::npos);

  // Another model, another rotation, another size.
  nlohmann::json other = nlohmann::json::parse(theirs);
  other["model_type"] = "bert";
  other[of.model == "gpt2" ? "n_head" : "num_attention_heads"] = 77;
  CHECK_THAT(differences(other.dump()),
             contains_text("model_type ") && contains_text(" bert;") && contains_text(" 77;"));
  if (of.model != "gpt2") {
    other["rope_scaling"] = {{"type", "dynamic"}};
    other["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 1000.0}};
    CHECK_THAT(differences(other.dump()), contains_text(" dynamic;"));
  }
}

TEST_CASE("keys of a rotary scaling that only config.json has are differences", "[parity]") {
  const std::string sizes =
      R"("vocab_size": 32000, "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 1024)";
  const auto differences = [&](const std::string& recipe,
                               const nlohmann::json& scaling,
                               const nlohmann::json& patch = nlohmann::json::object()) {
    const ModelProxy model(
        make_component("model", "llama", "{" + sizes + ", \"rope_scaling\": " + recipe + "}"));
    nlohmann::json config = nlohmann::json::parse("{" + sizes + "}");
    config["rope_scaling"] = scaling;
    config.merge_patch(patch);
    std::string text;
    for (const LayoutDifference& d :
         WeightsLayoutProxy::of(model.instance()).value().compare("hf", config.dump())) {
      text += d.option + " " + d.here + " " + d.there + "; ";
    }
    return text;
  };
  const std::string yarn =
      R"({"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64})";
  const auto with = [](const std::string& scaling, const std::string& more) {
    nlohmann::json value = nlohmann::json::parse(scaling);
    value.merge_patch(nlohmann::json::parse(more));
    return value;
  };
  CHECK(differences(yarn, with(yarn, "{}")).empty());
  CHECK(differences(yarn, with(yarn, R"({"beta_fast": 32, "truncate": true, "finetuned": true})"))
            .empty());
  CHECK(differences(yarn, with(yarn, R"({"mscale": 1.0, "mscale_all_dim": 0.8})")) ==
        "rope_scaling.mscale_all_dim 0.0 0.8; rope_scaling.mscale 0.0 1.0; ");
  CHECK(differences(yarn, with(yarn, R"({"attention_factor": 2.0})")) ==
        "rope_scaling.attention_factor 1.2772588722239782 2.0; ");
  CHECK(differences(yarn, with(yarn, R"({"truncate": false})")) ==
        "rope_scaling.truncate true false; ");
  CHECK(differences(yarn, with(yarn, R"({"beta_slow": 2})")) == "rope_scaling.beta_slow 1.0 2.0; ");
  CHECK_THAT(differences(yarn, with(yarn, R"({"mrope_section": [1, 2]})")),
             contains_text("rope_scaling without unknown keys ") && contains_text("mrope_section"));
  CHECK(differences("null", nullptr, {{"partial_rotary_factor", 0.5}}) ==
        "partial_rotary_factor 1.0 0.5; ");
  // The key of the file comes before that of the scaling; a scaling of the old form comes first.
  CHECK(differences(yarn, with(yarn, "{}"), {{"original_max_position_embeddings", 128}}) ==
        "rope_scaling.original_max_position_embeddings 64 128; ");
  CHECK(differences(yarn, with(yarn, "{}"), {{"rope_parameters", {{"rope_type", "default"}}}})
            .empty());

  const std::string factors = "[" + [] {
    std::string text = "1.0";
    for (int i = 1; i < 16; ++i) {
      text += ", " + std::to_string(i + 1) + ".0";
    }
    return text;
  }() + "]";
  const std::string longrope =
      R"({"rope_type": "longrope", "original_max_position_embeddings": 64, "short_factor": )" +
      factors + R"(, "long_factor": )" + factors + "}";
  CHECK(differences(longrope, with(longrope, "{}")).empty());
  CHECK(differences(longrope, with(longrope, R"({"type": "su", "rope_type": null})")).empty());
  CHECK(differences(longrope, with(longrope, R"({"factor": 16.0})")).empty());
  // Values of transformers 5.5.4: attention_scaling of the rotary embedding.
  CHECK_THAT(differences(longrope, with(longrope, R"({"factor": 4.0})")),
             contains_text("rope_scaling.attention_factor 1.29099") && contains_text(" 1.1547"));
  CHECK_THAT(differences(longrope, with(longrope, "{}"), {{"max_position_embeddings", 128}}),
             contains_text("rope_scaling.attention_factor 1.29099") && contains_text(" 1.08012"));
}

TEST_CASE("keys of other models that change the function are differences", "[parity]") {
  const ModelProxy model(make_component("model", "llama", "{}"));
  const auto differences = [&](const std::string& config) {
    std::string text;
    for (const LayoutDifference& d :
         WeightsLayoutProxy::of(model.instance()).value().compare("hf", config)) {
      text += d.option + " " + d.here + " " + d.there + "; ";
    }
    return text;
  };
  CHECK(differences(R"({"logits_scaling": 1, "clip_qkv": null, "mlp_bias": false})").empty());
  CHECK(differences(R"({"logits_scaling": 8.0})") == "logits_scaling 1.0 8.0; ");
  CHECK(differences(R"({"final_logit_softcapping": 30.0})") ==
        "final_logit_softcapping null 30.0; ");
  CHECK(differences(R"({"num_local_experts": 8})") == "num_local_experts null 8; ");
  CHECK(differences(R"({"attention_bias": true})") == "attention_bias false true; ");
}

TEST_CASE("yarn without truncate has the frequencies of transformers", "[parity]") {
  // LlamaForCausalLM of transformers 5.5.4, model.rotary_emb.inv_freq
  const std::vector<double> expected = {1.0,
                                        0.43158864974975586,
                                        0.169172465801239,
                                        0.05378502607345581,
                                        0.006994061637669802,
                                        0.003514633048325777,
                                        0.0019764236640185118,
                                        0.0011114246444776654,
                                        0.0006249999860301614,
                                        0.00035146332811564207,
                                        0.00019764236640185118,
                                        0.00011114246444776654,
                                        6.25000029685907e-05,
                                        3.5146331356372684e-05,
                                        1.9764236640185118e-05,
                                        1.1114246262877714e-05};
  ModelRig rig("llama",
               R"({"vocab_size": 8, "hidden_size": 64, "intermediate_size": 8,
                   "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 2,
                   "rope_scaling": {"rope_type": "yarn", "factor": 16.0, "truncate": false,
                                    "original_max_position_embeddings": 64}})");
  const at::Tensor values = rig.buffer("rotary");
  // At position 1, the angle is the frequency.
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto feature = static_cast<int64_t>(i);
    const double angle =
        std::atan2(values[1][1][feature].item<double>(), values[0][1][feature].item<double>());
    CHECK(angle == Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("packed sequences give what the sequences give", "[parity]") {
  const std::string name = kCases[GENERATE(range<size_t>(0, kCases.size()))];
  const Case of(name);
  const std::vector<int64_t> lengths = {5, 1, 3, 9};
  const auto dtype = GENERATE(at::kDouble, at::kFloat);
  const double most = dtype == at::kDouble ? 1e-10 : 2e-5;
  CAPTURE(name, dtype == at::kDouble);
  int64_t total = 0;
  std::vector<at::Tensor> positions;
  std::vector<at::Tensor> segments;
  for (size_t i = 0; i < lengths.size(); ++i) {
    positions.push_back(at::arange(lengths[i], at::kLong));
    segments.push_back(at::full({lengths[i]}, static_cast<int64_t>(i), at::kLong));
    total += lengths[i];
  }
  const at::Tensor ids = filled_tokens(1, total, of.vocabulary);
  const auto packed = of.rig(dtype);
  packed->forward({{"input_ids", ids},
                   {"position_ids", at::cat(positions).unsqueeze(0)},
                   {"segment_ids", at::cat(segments).unsqueeze(0)}});
  const at::Tensor logits = packed->output("logits").clone();
  const at::Tensor grad = filled("logits", logits.sizes().vec()).to(dtype);
  packed->backward("logits", grad);
  const std::map<std::string, at::Tensor> found = gradients(*packed);

  std::map<std::string, at::Tensor> expected;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    const auto one = of.rig(dtype);
    one->forward({{"input_ids", ids.narrow(1, first, length)}});
    CHECK(largest_difference(one->output("logits"), logits.narrow(1, first, length)) < most);
    one->backward("logits", grad.narrow(1, first, length).contiguous());
    for (const auto& [parameter, of_one] : gradients(*one)) {
      auto [at, is_new] = expected.try_emplace(parameter, of_one);
      if (!is_new) {
        at->second = at->second + of_one;
      }
    }
    first += length;
  }
  for (const auto& [parameter, sum] : expected) {
    CAPTURE(parameter);
    const double scale = std::max(1.0, sum.abs().max().item<double>());
    CHECK(largest_difference(found.at(parameter), sum) / scale < most);
  }
}

TEST_CASE("decoders generate with caches what the whole sequence gives", "[parity]") {
  const std::string name = kCases[GENERATE(range<size_t>(0, kCases.size()))];
  CAPTURE(name);
  const Case of(name);
  const auto made = of.rig(at::kDouble);
  ModelRig& whole = *made;

  ModelProxy proxy(make_component("model", of.model, of.options));
  const ModelGraph graph = describe_model(proxy);
  ParameterStore store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0U; }});
  const std::optional<GenerationProxy> generation = GenerationProxy::of(proxy.instance());
  // With longrope, a token that makes a sequence long changes all positions.
  CHECK(generation.has_value() == (of.model != "phi3"));
  if (!generation.has_value()) {
    return;
  }
  ExecBase base;
  base.compute_dtype = at::kDouble;
  base.tensors = tensor_service();
  base.ops = op_service();
  const ExecFrame frame(proxy.instance().host(), base);
  store.initialise(proxy, frame.exec(), 7);
  const at::AutoGradMode no_grad(false);
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    if (graph.parameters[p].same_as == kNoIndex) {
      store.leaf(p).detach().copy_(whole.parameter(graph.parameters[p].name));
    }
  }
  for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
    if (graph.buffers[b].kind == TENON_BUFFER_STATE) {
      store.buffer(b).copy_(whole.buffer(graph.buffers[b].name));
    }
  }

  const at::Tensor ids = filled_tokens(1, 13, of.vocabulary);
  const std::unique_ptr<SequenceRunner> cached =
      cached_sequence(proxy, store, base, *generation, 20);
  int64_t done = 0;
  for (const int64_t n : {4, 1, 1, 5, 2}) {
    const at::Tensor step = ids[0].narrow(0, done, n);
    done += n;
    const at::Tensor logits = cached->append(
        std::vector<int64_t>(step.const_data_ptr<int64_t>(), step.const_data_ptr<int64_t>() + n));
    whole.forward({{"input_ids", ids.narrow(1, 0, done)}}, {1, 0, false});
    CAPTURE(done);
    CHECK(largest_difference(logits, whole.output("logits")[0][done - 1]) < 1e-10);
  }
}

TEST_CASE("decoders name tokens and positions that they do not have", "[parity]") {
  const std::string name = GENERATE("llama", "gpt2", "deepseek_v3");
  const Case of(name);
  const auto made = of.rig(at::kFloat);
  ModelRig& rig = *made;
  const at::Tensor ids = filled_tokens(2, 7, of.vocabulary);
  const auto message = [&](const std::map<std::string, at::Tensor>& fields) {
    return error_of([&] { rig.forward(fields); });
  };
  CHECK_THAT(message({{"input_ids", ids.narrow(0, 0, 1).repeat({1, 6})}}),
             contains_text("a sequence has 42 positions, but max_position_embeddings is 40"));
  at::Tensor positions = at::arange(7, at::kLong).repeat({2, 1});
  positions[1][2] = 40;
  CHECK_THAT(message({{"input_ids", ids}, {"position_ids", positions}}),
             contains_text("position 40 at place 9 of position_ids [2, 7] is not in [0, 40)"));
  positions[1][2] = -1;
  CHECK_THAT(message({{"input_ids", ids}, {"position_ids", positions}}),
             contains_text("position -1 at place 9"));
  at::Tensor wrong = ids.clone();
  wrong[0][3] = of.vocabulary;
  CHECK_THAT(message({{"input_ids", wrong}}),
             contains_text("token 29 at position 3 of input_ids [2, 7] is not in [0, 29)"));
}

TEST_CASE("decoders refuse options that contradict each other", "[parity]") {
  const auto message = [](const std::string& model, const std::string& options) {
    return error_of([&] { make_component("model", model, options); });
  };
  CHECK_THAT(message("qwen2", R"({"num_attention_heads": 6, "num_key_value_heads": 4,
                                  "hidden_size": 48})"),
             contains_text("num_key_value_heads 4 must divide num_attention_heads 6"));
  CHECK_THAT(message("qwen2", R"({"hidden_size": 50, "num_attention_heads": 6})"),
             contains_text("hidden_size 50 over num_attention_heads 6"));
  CHECK_THAT(message("gpt2", R"({"n_embd": 50, "n_head": 6})"),
             contains_text("n_head 6 must divide n_embd 50"));
  CHECK_THAT(message("gemma3", R"({"sliding_window": null})"),
             contains_text("layers of gemma3 need a window"));
  CHECK_THAT(
      message("phi3", R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]}})"),
      contains_text("rope_scaling.short_factor has 1 numbers (expected 48"));
  CHECK_THAT(message("mixtral", R"({"num_local_experts": 2, "num_experts_per_tok": 3})"),
             contains_text("a token has 3 experts (num_experts_per_tok), but the model has 2"));
  CHECK_THAT(message("deepseek_v3", R"({"n_routed_experts": 10, "n_group": 4})"),
             contains_text("must be a multiple of the number of groups (n_group), 4"));
  CHECK_THAT(message("deepseek_v3", R"({"v_head_dim": 200})"),
             contains_text("v_head_dim 200 exceeds the width of a head"));
  CHECK_THAT(options_problem("model", "llama", R"({"rope_scaling": {"rope_type": "dynamic"}})"),
             contains_text("/rope_scaling/rope_type: not an allowed value"));
}

TEST_CASE("biases of experts move once a step, by the loads of all its microbatches", "[parity]") {
  const Case of("deepseek_v3");
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  const at::Tensor ids = filled_tokens(2, 13, of.vocabulary);
  const auto made = of.rig(at::kFloat);
  ModelRig& rig = *made;
  const at::Tensor before = rig.buffer(name).clone();
  rig.forward({{"input_ids", ids}}, {1, 0, false});
  CHECK(at::equal(rig.buffer(name), before));
  rig.runner().sums().clear();
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    rig.forward({{"input_ids", ids.narrow(0, microbatch, 1)}});
    rig.backward("logits", at::ones_like(rig.output("logits")));
    CHECK(at::equal(rig.buffer(name), before));
  }
  rig.runner().end_step();
  const at::Tensor moved = rig.buffer(name) - before;
  // 52 choices among 6 experts are not equal; each bias moves by the speed, or not at all.
  CHECK(moved.abs().max().item<double>() < 0.00101);
  CHECK(moved.abs().max().item<double>() > 0.00099);
  CHECK(std::abs(moved.sum().item<double>()) < 0.005);
}

}  // namespace tenon
