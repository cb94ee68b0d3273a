// SPDX-License-Identifier: Apache-2.0
//
// A llama with a memory of n-grams, run block by block as the host does it, against plain PyTorch
// (ngram_memory_golden.py), against a llama without one, and with caches against the whole text.
#include "host/model/sequence_runner.hpp"
#include "host/model/text_fields.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/train/plan/block_cost.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

#include "tests/parity/model_rig.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/one_row_pass.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

// The same formula as in ngram_memory_golden.py.
at::Tensor made_memory(double number, at::IntArrayRef shape, double around = 0.0) {
  const at::Tensor numbers = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (at::sin(numbers * 0.37 + number) * 0.5 + around).reshape(shape);
}

double memory_checksum(const at::Tensor& grad) {
  const at::Tensor flat = grad.to(at::kDouble).reshape({-1});
  return (flat * at::cos(at::arange(flat.numel(), at::kDouble))).sum().item<double>();
}

at::Tensor ids_of_case(const nlohmann::json& of) {
  std::vector<at::Tensor> rows;
  for (const nlohmann::json& row : of["ids"]) {
    rows.push_back(at::tensor(row.get<std::vector<int64_t>>(), at::kLong));
  }
  return at::stack(rows);
}

constexpr int64_t kMemoryDim = 3;

// The options of a small llama, with a memory or null.
std::string remembering_llama(const std::string& memory) {
  return R"({"vocab_size": 11, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 3,
             "num_attention_heads": 4, "num_key_value_heads": 2, "memory": )" +
         memory + "}";
}

// Rows that depend on the id in column "a" alone.
class RowsById final : public OneRowPass {
 public:
  void start(const Batch* batch, const CallPoint&, Lookup lookup) override {
    CHECK(lookup == Lookup::kEvaluate);
    ids_ = *batch->find("a");
  }
  at::Tensor rows(uint32_t, const at::Tensor&) override {
    const at::Tensor numbers = at::arange(kMemoryDim, at::kFloat);
    return at::sin(ids_.to(at::kFloat).unsqueeze(2) + numbers);
  }
  void take_grad(uint32_t, const at::Tensor&) override {}

 private:
  at::Tensor ids_;
};

// Column "a": the sum of a token and twice the one before it.
class PairIds final : public TextFields {
 public:
  PairIds() : fields_(1) {
    fields_[0].name = "a";
    fields_[0].dtype = TENON_I64;
  }
  const std::vector<FieldInfo>& fields() const override { return fields_; }
  std::vector<at::Tensor> values(const std::vector<int64_t>& ids) override {
    at::Tensor made = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
    for (size_t t = 0; t < ids.size(); ++t) {
      made[0][static_cast<int64_t>(t)] = ids[t] + (t > 0 ? 2 * ids[t - 1] : 0);
    }
    return {made};
  }

 private:
  std::vector<FieldInfo> fields_;
};

}  // namespace

TEST_CASE("a llama with a memory is what PyTorch makes of it, in value and gradient", "[parity]") {
  const nlohmann::json cases = nlohmann::json::parse(
      file_text(source_dir() / "tests" / "parity" / "ngram_memory_golden.json"));
  for (const nlohmann::json& of : cases) {
    for (const RecomputeMode recompute : {RecomputeMode::kNone, RecomputeMode::kBlocks}) {
      CAPTURE(of["name"].get<std::string>());
      ModelRig rig("llama", of["options"].dump(), at::kDouble, recompute);
      REQUIRE(rig.graph().parameters.size() == of["parameters"].size());
      for (size_t i = 0; i < of["parameters"].size(); ++i) {
        const nlohmann::json& parameter = of["parameters"][i];
        const auto name = parameter["name"].get<std::string>();
        const bool is_norm = name.find("norm") != std::string::npos;
        rig.set_parameter(name,
                          made_memory(static_cast<double>(i),
                                      parameter["shape"].get<std::vector<int64_t>>(),
                                      is_norm ? 1.0 : 0.0));
      }
      const at::Tensor ids = ids_of_case(of);
      for (size_t i = 0; i < of["columns"].size(); ++i) {
        rig.set_rows(
            "memory." + of["columns"][i].get<std::string>(),
            made_memory(100 + static_cast<double>(i), {ids.size(0), ids.size(1), kMemoryDim}));
      }
      rig.forward({{"input_ids", ids}});
      const at::Tensor logits = rig.output("logits");
      const at::Tensor expected =
          at::tensor(of["logits"].get<std::vector<double>>(), at::kDouble).view_as(logits);
      CHECK((logits - expected).abs().max().item<double>() < 1e-12);
      rig.backward("logits", made_memory(200, logits.sizes()));
      for (const nlohmann::json& parameter : of["parameters"]) {
        CAPTURE(parameter["name"].get<std::string>());
        CHECK(memory_checksum(rig.grad(parameter["name"])) ==
              Approx(parameter["grad"].get<double>()).margin(1e-10));
      }
      for (size_t i = 0; i < of["columns"].size(); ++i) {
        const std::string value = "memory." + of["columns"][i].get<std::string>();
        CAPTURE(value);
        CHECK(memory_checksum(rig.row_grad(value)) ==
              Approx(of["rows"][i].get<double>()).margin(1e-10));
      }
    }
  }
}

TEST_CASE("a memory whose rows are zeros leaves the model as it is", "[parity]") {
  const at::Tensor ids = at::arange(10, at::kLong).view({2, 5});
  ModelRig plain("llama", remembering_llama("null"));
  plain.forward({{"input_ids", ids}});
  ModelRig with("llama", remembering_llama(R"({"columns": ["a"], "dim": 3, "layers": [0, 2]})"));
  with.set_rows("memory.a", at::zeros({2, 5, kMemoryDim}));
  with.forward({{"input_ids", ids}});
  CHECK(at::equal(with.output("logits"), plain.output("logits")));
  // Rows still get a gradient, so training can leave the zeros.
  with.backward("logits", at::ones({2, 5, 11}));
  CHECK(with.row_grad("memory.a").abs().max().item<double>() > 0);
}

TEST_CASE("logits of a model with a memory are equal with caches and without", "[parity]") {
  ModelProxy proxy(make_component(
      "model", "llama", remembering_llama(R"({"columns": ["a"], "dim": 3, "layers": [0, 2]})")));
  const ModelGraph graph = describe_model(proxy);
  ParameterStore store(graph, {at::kFloat, at::kCPU, [](uint32_t) { return 0U; }});
  ExecBase base;
  base.tensors = tensor_service();
  base.ops = op_service();
  const ExecFrame frame(proxy.instance().host(), base);
  store.initialise(proxy, frame.exec(), 7);
  const auto generation = GenerationProxy::of(proxy.instance());
  REQUIRE(generation.has_value());
  PairIds fields;
  RowsById rows;
  const std::vector<int64_t> ids = {3, 10, 1, 5, 5, 0, 7};
  const auto whole = whole_sequence(proxy, store, base, {&fields, &rows});
  const auto cached = cached_sequence(proxy, store, base, *generation, 16, {&fields, &rows});
  const auto at_once = cached_sequence(proxy, store, base, *generation, 16, {&fields, &rows});
  at::Tensor last;
  for (const int64_t id : ids) {
    const at::Tensor expected = whole->append({id});
    last = cached->append({id});
    CHECK((last - expected).abs().max().item<double>() < 1e-5);
  }
  CHECK((at_once->append(ids) - last).abs().max().item<double>() < 1e-5);
  // What a text does not have is refused.
  CHECK_THAT(error_of([&] { cached_sequence(proxy, store, base, *generation, 16); }),
             contains_text("looks up rows of a table"));
  CHECK_THAT(error_of([&] {
               whole_sequence(proxy, store, base, {nullptr, &rows});
             }),
             contains_text("looks up rows by the column 'a', which no feature of the recipe "
                           "computes from token ids"));
}

TEST_CASE("a memory that does not fit the model is refused", "[parity]") {
  const auto error = [](const std::string& memory) {
    return error_of([&] { ModelRig("llama", remembering_llama(memory)); });
  };
  CHECK_THAT(error(R"({"columns": ["a"], "layers": [3]})"),
             contains_text("memory.layers has the layer 3, but num_hidden_layers is 3"));
  CHECK_THAT(error(R"({"columns": ["a"], "layers": [1, 0, 1]})"),
             contains_text("memory.layers has a layer twice"));
  CHECK_THAT(error(R"({"columns": ["a", "b", "a"]})"),
             contains_text("memory.columns has a column twice"));
}

}  // namespace tenon
