// SPDX-License-Identifier: Apache-2.0
//
// Sequences of the llama plugin with caches and without, against each other and against the greedy
// texts of transformers' `generate` (generation_golden.py made them).
#include "host/error/error.hpp"
#include "host/model/sequence_runner.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/safetensors.hpp"

namespace tenon {
namespace {

// A model with parameters, from which sequences are made.
class Sequences {
 public:
  explicit Sequences(const std::string& options)
      : proxy_(make_component("model", "llama", options)),
        graph_(describe_model(proxy_)),
        store_(graph_, {at::kFloat, at::kCPU, [](uint32_t) { return 0U; }}),
        generation_(GenerationProxy::of(proxy_.instance())) {
    base_.tensors = tensor_service();
    base_.ops = op_service();
    const ExecFrame frame(proxy_.instance().host(), base_);
    store_.initialise(proxy_, frame.exec(), 7);
    REQUIRE(generation_.has_value());
  }

  void take_weights(const GoldenData& data) {
    const at::AutoGradMode no_grad(false);
    for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
      if (graph_.parameters[p].same_as == kNoIndex) {
        store_.leaf(p).detach().copy_(data.at("weight/" + graph_.parameters[p].name));
      }
    }
  }

  std::unique_ptr<SequenceRunner> cached(int64_t capacity) {
    return cached_sequence(proxy_, store_, base_, *generation_, capacity);
  }
  std::unique_ptr<SequenceRunner> whole() { return whole_sequence(proxy_, store_, base_); }

 private:
  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterStore store_;
  std::optional<GenerationProxy> generation_;
  ExecBase base_;
};

std::vector<int64_t> greedy(SequenceRunner& sequence, const std::vector<int64_t>& prompt, int n) {
  std::vector<int64_t> ids;
  std::vector<int64_t> next = prompt;
  for (int i = 0; i < n; ++i) {
    next = {sequence.append(next).argmax().item<int64_t>()};
    ids.push_back(next.front());
  }
  return ids;
}

constexpr char kSmall[] = R"({"vocab_size": 40, "hidden_size": 32, "intermediate_size": 44,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "initializer_range": 0.3})";

}  // namespace

TEST_CASE("256 greedy tokens are those of transformers, with caches and without", "[parity]") {
  const nlohmann::json golden = nlohmann::json::parse(
      file_text(source_dir() / "tests" / "parity" / "generation_golden.json"));
  for (const auto& [name, one] : golden.items()) {
    CAPTURE(name);
    Sequences model(one["options"].dump());
    model.take_weights(
        read_safetensors(source_dir() / "tests" / "parity" / (name + ".safetensors")));
    const auto prompt = one["prompt"].get<std::vector<int64_t>>();
    const auto expected = one["ids"].get<std::vector<int64_t>>();
    REQUIRE(expected.size() == 256);
    CHECK(greedy(*model.cached(300), prompt, 256) == expected);
    // Each token of the other way costs a whole forward: fewer of them.
    CHECK(greedy(*model.whole(), prompt, 64) ==
          std::vector<int64_t>(expected.begin(), expected.begin() + 64));
  }
}

TEST_CASE("logits with caches are those of the whole sequence, in steps of any length",
          "[parity]") {
  Sequences model(kSmall);
  const std::vector<int64_t> ids = {3, 17, 29, 5, 11, 38, 0, 21, 9, 9, 30, 2};
  const std::unique_ptr<SequenceRunner> whole = model.whole();
  std::vector<at::Tensor> expected;
  for (const int64_t id : ids) {
    expected.push_back(whole->append({id}).clone());
  }
  for (const std::vector<size_t>& steps :
       {std::vector<size_t>{12}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 4, 2}, {1, 11}}) {
    const std::unique_ptr<SequenceRunner> cached = model.cached(12);
    size_t done = 0;
    for (const size_t n : steps) {
      const at::Tensor logits =
          cached->append({ids.begin() + static_cast<std::ptrdiff_t>(done),
                          ids.begin() + static_cast<std::ptrdiff_t>(done + n)});
      done += n;
      CAPTURE(steps.size(), done);
      CHECK((logits - expected[done - 1]).abs().max().item<double>() < 1e-5);
    }
  }
}

TEST_CASE("two sequences of one model do not touch each other", "[parity]") {
  Sequences model(kSmall);
  const std::vector<int64_t> first = greedy(*model.cached(30), {1, 2, 3}, 20);
  const std::vector<int64_t> second = greedy(*model.cached(30), {7, 8}, 20);
  const std::unique_ptr<SequenceRunner> a = model.cached(30);
  const std::unique_ptr<SequenceRunner> b = model.cached(30);
  std::vector<int64_t> next_a = {1, 2, 3};
  std::vector<int64_t> next_b = {7, 8};
  for (size_t i = 0; i < 20; ++i) {
    next_a = {a->append(next_a).argmax().item<int64_t>()};
    next_b = {b->append(next_b).argmax().item<int64_t>()};
    CHECK(next_a.front() == first[i]);
    CHECK(next_b.front() == second[i]);
  }
}

TEST_CASE("a sequence has no more positions than the model, and than it has room for", "[parity]") {
  Sequences model(kSmall);
  CHECK(model.cached(1000)->max_positions() == 64);
  CHECK_FALSE(model.whole()->max_positions().has_value());
  const std::unique_ptr<SequenceRunner> full = model.cached(3);
  full->append({1, 2, 3});
  CHECK_THROWS_WITH(full->append({4}), contains_text("has no room for"));
  CHECK_THROWS_WITH(model.whole()->append(std::vector<int64_t>(65, 1)),
                    contains_text("max_position_embeddings is 64"));
}

TEST_CASE("a model that reads more than text has no sequences", "[parity]") {
  ModelProxy proxy(make_component(
      "model", "mlp", R"({"input": "x", "in_features": 4, "hidden": [3], "out_features": 2})"));
  const ModelGraph graph = describe_model(proxy);
  ParameterStore store(graph, {at::kFloat, at::kCPU, [](uint32_t) { return 0U; }});
  CHECK_FALSE(GenerationProxy::of(proxy.instance()).has_value());
  CHECK_THROWS_WITH(
      whole_sequence(proxy, store, {}),
      contains_text("[generate.not_possible]") && contains_text("it has no value 'input_ids'"));
}

}  // namespace tenon
