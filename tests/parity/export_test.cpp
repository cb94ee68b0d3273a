// SPDX-License-Identifier: Apache-2.0
//
// Weights from transformers and back: folders that its LlamaForCausalLM saved (hf_golden.py made
// them) are imported, give its logits, and are exported again to the byte; where the peers' Python
// is there, transformers and torch load what was exported after training.
#include "host/checkpoint/weights_folder.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/parity/decoder_fill.hpp"
#include "tests/parity/model_rig.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/safetensors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  std::string own_options;
};

const std::vector<Case> kCases = {
    {"hf_sharded", R"("num_hidden_layers": 2, "tie_word_embeddings": false)"},
    {"hf_tied",
     R"("num_hidden_layers": 1, "tie_word_embeddings": true, "rope_scaling": {
          "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8})"}};

std::string options_of(const Case& of) {
  return R"({"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
      "initializer_range": 0.25, "rms_norm_eps": 1e-5, "rope_theta": 500.0, )" +
         of.own_options + "}";
}

std::string recipe_of(const Case& of, const std::string& frozen = "[]") {
  return R"({"name": "lm", "threads": {"compute": 1},
      "model": {"type": "llama", "frozen": )" +
         frozen + R"(, "options": )" + options_of(of) + R"(},
      "data": {"batch_size": 2,
               "train": {"type": "token_rows", "options": {"samples": 26, "length": 8}}},
      "loss": {"type": "cross_entropy"}, "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
      "train": {"steps": 2}, "checkpoint": {}})";
}

fs::path golden_of(const Case& of) {
  return source_dir() / "tests" / "parity" / of.name;
}

void succeed(const std::vector<std::string>& words) {
  const SubprocessResult result = run_host(words);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// What our model makes of the weights in a folder.
at::Tensor logits_of(const Case& of, const fs::path& folder, const at::Tensor& ids) {
  ModelRig rig("llama", options_of(of), at::kFloat);
  const WeightsFolder weights(folder.string());
  for (const auto& [name, tensor] : weights.tensors()) {
    rig.set_parameter(name, weights.source(name)->whole());
  }
  rig.forward({{"input_ids", ids}});
  return rig.output("logits");
}

}  // namespace

TEST_CASE("weights of transformers give its logits, and go out again to the byte", "[parity]") {
  const Case of = kCases[GENERATE(0, 1)];
  const int num_ranks = GENERATE(1, 2);
  CAPTURE(of.name, num_ranks);
  const fs::path golden = golden_of(of);
  const ScratchFolder scratch;
  const std::string recipe = scratch.write("recipe.json", recipe_of(of)).string();
  const std::string run = (scratch.path() / "run").string();
  std::vector<std::string> words = {
      "--recipe", recipe, "--import", "hf", golden.string(), "--run-dir", run};
  if (num_ranks > 1) {
    words.insert(words.end(), {"--launch", std::to_string(num_ranks), "--set", "parallel.shard=2"});
  }
  succeed(words);
  const fs::path out = scratch.path() / "out";
  succeed({"--export", "hf", out.string(), "--run-dir", run, "--file-bytes", "10000"});

  const WeightsFolder before(golden.string());
  const WeightsFolder after(out.string());
  CHECK(fs::exists(out / "model.safetensors.index.json"));
  REQUIRE(after.tensors().size() == before.tensors().size());
  for (const auto& [name, tensor] : before.tensors()) {
    CAPTURE(name);
    REQUIRE(after.tensors().contains(name));
    CHECK(after.tensors().at(name).dtype == tensor.dtype);
    CHECK(at::equal(after.source(name)->whole(), before.source(name)->whole()));
  }
  const GoldenData data = read_safetensors(golden / "logits.safetensors");
  CHECK(largest_difference(logits_of(of, out, data.at("input_ids")), data.at("logits")) < 1e-5);
}

TEST_CASE("transformers and torch load what was trained here", "[parity][.release]") {
  const fs::path python = source_dir() / ".deps/peers/bin/python";
  if (!fs::exists(python)) {
    TENON_SKIP("there is no Python with transformers; `./dev deps --peers` brings one");
  }
  const Case of = kCases[GENERATE(0, 1)];
  CAPTURE(of.name);
  const ScratchFolder scratch;
  const std::string recipe =
      scratch.write("recipe.json", recipe_of(of, R"(["model.layers.0.mlp.*"])")).string();
  const std::string run = (scratch.path() / "run").string();
  const fs::path golden = golden_of(of);
  succeed({"--recipe", recipe, "--import", "hf", golden.string(), "--run-dir", run});
  succeed({"--recipe", recipe, "--run-dir", run});
  const fs::path out = scratch.path() / "out";
  const std::string file = (scratch.path() / "state.pt").string();
  succeed({"--export", "hf", out.string(), "--run-dir", run});
  succeed({"--export", "torch", file, "--run-dir", run});

  // What is frozen has not changed, all else has.
  const WeightsFolder before(golden.string());
  const WeightsFolder after(out.string());
  for (const auto& [name, tensor] : before.tensors()) {
    CAPTURE(name);
    const bool is_frozen = name.find("layers.0.mlp.") != std::string::npos;
    CHECK(at::equal(after.source(name)->whole(), before.source(name)->whole()) == is_frozen);
  }

  const fs::path theirs = scratch.path() / "theirs.safetensors";
  const SubprocessResult result =
      run_subprocess({"timeout",
                      "200",
                      python.string(),
                      "-B",
                      (source_dir() / "tests/parity/hf_peer.py").string(),
                      out.string(),
                      file,
                      (golden / "logits.safetensors").string(),
                      theirs.string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const GoldenData loaded = read_safetensors(theirs);
  const GoldenData data = read_safetensors(golden / "logits.safetensors");
  CHECK(largest_difference(logits_of(of, out, data.at("input_ids")), loaded.at("logits")) < 1e-5);
  for (const auto& [name, tensor] : after.tensors()) {
    CAPTURE(name);
    CHECK(at::equal(after.source(name)->whole(), loaded.at("state/" + name)));
  }
  const bool is_tied = of.name == "hf_tied";
  CHECK(loaded.tensors.size() == after.tensors().size() + 2 + (is_tied ? 1 : 0));
  if (is_tied) {
    CHECK(
        at::equal(loaded.at("state/lm_head.weight"), loaded.at("state/model.embed_tokens.weight")));
  }
}

namespace {

// Writes the folder that transformers would write for a case of decoders_golden.py, with values by
// formula.
void write_folder(const fs::path& folder, const GoldenData& golden) {
  fs::create_directories(folder);
  nlohmann::json header;
  std::string data;
  const nlohmann::json shapes = nlohmann::json::parse(golden.metadata.at("tensors"));
  for (const auto& [name, shape] : shapes.items()) {
    const at::Tensor value = filled(name, shape.get<std::vector<int64_t>>()).to(at::kFloat);
    const size_t begin = data.size();
    data.append(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const auto size = static_cast<uint64_t>(text.size());
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << text << data;
  std::ofstream(folder / "config.json") << golden.metadata.at("config");
}

}  // namespace

TEST_CASE("folders with transposed, joined and cut tensors come in and go out to the byte",
          "[parity][.release]") {
  const std::string name = GENERATE("gpt2", "phi3_long", "mixtral", "deepseek_v3", "gemma3");
  CAPTURE(name);
  const GoldenData golden =
      read_safetensors(source_dir() / "tests/parity/decoders" / (name + ".safetensors"));
  const ScratchFolder scratch;
  const fs::path theirs = scratch.path() / "theirs";
  write_folder(theirs, golden);
  const std::string recipe =
      scratch
          .write("recipe.json",
                 R"({"name": "lm", "threads": {"compute": 1}, "model": {"type": ")" +
                     golden.metadata.at("model") + R"(", "options": )" +
                     golden.metadata.at("options") + R"(},
      "data": {"batch_size": 2,
               "train": {"type": "token_rows", "options": {"samples": 8, "length": 8}}},
      "loss": {"type": "cross_entropy"}, "optimizer": {"type": "adamw", "options": {"lr": 0.01}},
      "train": {"steps": 1}, "checkpoint": {}})")
          .string();
  const std::string run = (scratch.path() / "run").string();
  const fs::path out = scratch.path() / "out";
  succeed({"--recipe", recipe, "--import", "hf", theirs.string(), "--run-dir", run});
  succeed({"--export", "hf", out.string(), "--run-dir", run});
  const WeightsFolder before(theirs.string());
  const WeightsFolder after(out.string());
  REQUIRE(after.tensors().size() == before.tensors().size());
  for (const auto& [tensor, info] : before.tensors()) {
    CAPTURE(tensor);
    REQUIRE(after.tensors().contains(tensor));
    CHECK(at::equal(after.source(tensor)->whole(), before.source(tensor)->whole()));
  }

  const fs::path python = source_dir() / ".deps/peers/bin/python";
  if (!fs::exists(python)) {
    return;  // what was exported is what transformers wrote
  }
  // transformers reads the config.json of the export.
  const std::string state = (scratch.path() / "state.pt").string();
  succeed({"--export", "torch", state, "--run-dir", run});
  const fs::path loaded = scratch.path() / "loaded.safetensors";
  const SubprocessResult result =
      run_subprocess({"timeout",
                      "200",
                      python.string(),
                      "-B",
                      (source_dir() / "tests/parity/hf_peer.py").string(),
                      out.string(),
                      state,
                      (source_dir() / "tests/parity/hf_tied/logits.safetensors").string(),
                      loaded.string()});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const GoldenData peer = read_safetensors(loaded);
  ModelRig rig(golden.metadata.at("model"), golden.metadata.at("options"), at::kFloat);
  for (const ModelParameter& p : rig.graph().parameters) {
    if (p.same_as == kNoIndex) {
      rig.set_parameter(p.name, peer.at("state/" + p.name));
    }
  }
  for (const ModelBuffer& b : rig.graph().buffers) {
    if (b.kind == TENON_BUFFER_STATE) {
      rig.buffer(b.name).copy_(peer.at("state/" + b.name));
    }
  }
  rig.forward({{"input_ids", peer.at("input_ids")}}, {1, 0, false});
  const at::Tensor logits = peer.at("logits");
  CHECK(largest_difference(rig.output("logits"), logits) /
            std::max(1.0, logits.abs().max().item<double>()) <
        1e-5);
}

TEST_CASE("an export rounds where it is asked to, and overwrites nothing", "[parity]") {
  const Case& of = kCases[1];
  const ScratchFolder scratch;
  const std::string recipe = scratch.write("recipe.json", recipe_of(of)).string();
  const std::string run = (scratch.path() / "run").string();
  const std::string out = (scratch.path() / "out").string();
  succeed({"--recipe", recipe, "--import", "hf", golden_of(of).string(), "--run-dir", run});
  succeed({"--export", "hf", out, "--run-dir", run, "--dtype", "bf16"});
  const WeightsFolder before(golden_of(of).string());
  const WeightsFolder after(out);
  for (const auto& [name, tensor] : before.tensors()) {
    CHECK(at::equal(after.source(name)->whole(), before.source(name)->whole().to(at::kBFloat16)));
  }
  CHECK_THAT(*after.text("config.json"), contains_text("\"dtype\": \"bfloat16\""));
  for (const char* const format : {"hf", "torch"}) {
    const SubprocessResult again = run_host({"--export", format, out, "--run-dir", run});
    CHECK(again.exit_code == 2);
    CHECK_THAT(again.err, contains_text("[weights.exists]"));
  }
  // Narrow weights come in exactly, and go out as they came.
  const std::string second = (scratch.path() / "second").string();
  const std::string back = (scratch.path() / "back").string();
  succeed({"--recipe", recipe, "--import", "hf", out, "--run-dir", second});
  succeed({"--export", "hf", back, "--run-dir", second, "--dtype", "bf16"});
  const WeightsFolder returned(back);
  for (const auto& [name, tensor] : after.tensors()) {
    CHECK(at::equal(returned.source(name)->whole(), after.source(name)->whole()));
  }
}

TEST_CASE("weights of another model are refused with each difference", "[parity]") {
  const Case& of = kCases[0];
  const ScratchFolder scratch;
  const std::string recipe = scratch.write("recipe.json", recipe_of(of)).string();
  const std::string run = (scratch.path() / "run").string();
  const std::string tied = golden_of(kCases[1]).string();
  const SubprocessResult other =
      run_host({"--recipe", recipe, "--import", "hf", tied, "--run-dir", run});
  INFO(other.out << other.err);
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err,
             contains_text("[weights.mismatch]") &&
                 contains_text("num_hidden_layers is 2 in the recipe, and 1 in config.json") &&
                 contains_text("tie_word_embeddings is false in the recipe, and true") &&
                 contains_text("rope_scaling.rope_type is default in the recipe, and llama3") &&
                 contains_text("'model.layers.1.input_layernorm.weight' is missing"));
  CHECK_FALSE(fs::exists(run));

  const std::string smaller =
      scratch.write("smaller.json", recipe_of({"", R"("num_hidden_layers": 1)"})).string();
  const SubprocessResult larger =
      run_host({"--recipe", smaller, "--import", "hf", golden_of(of).string(), "--run-dir", run});
  CHECK_THAT(
      larger.err,
      contains_text("'model.layers.1.input_layernorm.weight' [16] is not a tensor of the model"));

  const SubprocessResult nothing =
      run_host({"--recipe", recipe, "--import", "hf", scratch.path().string(), "--run-dir", run});
  CHECK(nothing.exit_code == 2);
  CHECK_THAT(nothing.err, contains_text("[weights.bad_folder]"));
}

TEST_CASE("a model without a layout is exported by its own names alone", "[parity]") {
  const ScratchFolder scratch;
  const std::string recipe = scratch
                                 .write("recipe.json",
                                        R"({"name": "net", "threads": {"compute": 1},
      "model": {"type": "mlp", "options": {"in_features": 4, "hidden": [8], "out_features": 3}},
      "data": {"batch_size": 2, "train": {"type": "windows", "options": {"samples": 8}}},
      "loss": {"type": "cross_entropy"}, "optimizer": {"type": "sgd", "options": {"lr": 0.1}},
      "train": {"steps": 1}, "checkpoint": {}})")
                                 .string();
  const std::string run = (scratch.path() / "run").string();
  succeed({"--recipe", recipe, "--run-dir", run});
  const SubprocessResult refused =
      run_host({"--export", "hf", (scratch.path() / "out").string(), "--run-dir", run});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, contains_text("[weights.no_layout]") && contains_text("--export torch"));
  const fs::path file = scratch.path() / "net.pt";
  succeed({"--export", "torch", file.string(), "--run-dir", run});
  CHECK(fs::file_size(file) > 0);
}

}  // namespace tenon
