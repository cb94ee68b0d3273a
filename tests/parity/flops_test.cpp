// SPDX-License-Identifier: Apache-2.0
//
// What the decoder plugins declare about their operations, against counts of transformers' models
// (flops_golden.py made the data).
#include "host/model/joined_graph.hpp"
#include "host/train/flop_meter.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

struct Counted {
  explicit Counted(const nlohmann::json& golden)
      : proxy(make_component("model", golden.at("model"), golden.at("options").dump())),
        graph(describe_model(proxy)) {
    skip_unread_blocks(graph, {*graph.find_output("logits")});
  }
  ModelFlops flops(const std::function<bool(uint32_t)>& is_trainable = [](uint32_t) {
    return true;
  }) {
    return ModelFlops({.models = proxy,
                       .graph = graph,
                       .exec = {},
                       .fields = {"input_ids", "position_ids", "segment_ids"},
                       .is_trainable = is_trainable});
  }

  ModelProxy proxy;
  ModelGraph graph;
};

// Two rows of two sequences each, with padding at the end of the second row.
Batch packed_batch(const std::vector<int64_t>& lengths) {
  const int64_t width = lengths[2] + lengths[3] + 5;
  Batch batch;
  batch.samples = 2;
  batch.packed_samples = 4;
  batch.sequences = {{.row = 0, .length = lengths[0]},
                     {.row = 0, .first = lengths[0], .length = lengths[1]},
                     {.row = 1, .length = lengths[2]},
                     {.row = 1, .first = lengths[2], .length = lengths[3]}};
  std::vector<FieldInfo> schema;
  for (const char* const name : {"input_ids", "position_ids", "segment_ids"}) {
    schema.push_back({.name = name, .dtype = TENON_I64, .axes = {{.name = "B"}, {.name = "T"}}});
    batch.fields.push_back(at::zeros({2, width}, at::kLong));
  }
  batch.schema = std::make_shared<const std::vector<FieldInfo>>(std::move(schema));
  return batch;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

const nlohmann::json& golden() {
  static const nlohmann::json golden = [] {
    std::ifstream file(source_dir() / "tests/parity/flops_golden.json");
    return nlohmann::json::parse(file);
  }();
  return golden;
}

}  // namespace

TEST_CASE("decoders declare the operations that a count of transformers gives", "[parity]") {
  const auto lengths = golden().at("lengths").get<std::vector<int64_t>>();
  SequenceSums sums;
  for (const int64_t length : lengths) {
    sums.add(static_cast<double>(length));
  }
  for (const auto& [name, one] : golden().at("cases").items()) {
    CAPTURE(name);
    Counted counted(one);
    ModelFlops flops = counted.flops();
    const auto exact = flops.of(packed_batch(lengths));
    CAPTURE(flops.why_not_exact(), flops.why_no_size());
    REQUIRE(exact.has_value());
    CHECK(sum_of(exact->forward) == one.at("forward").get<double>());
    CHECK(sum_of(exact->backward) == one.at("backward").get<double>());
    REQUIRE(flops.size(0).has_value());
    for (const FlopFormula& formula : flop_formulas()) {
      CAPTURE(formula.id);
      CHECK(formula.flops(*flops.size(0), sums) == one.at(formula.id).get<double>());
    }
  }
}

TEST_CASE("a frozen matrix has no gradient, but lets that of its input through", "[parity]") {
  const nlohmann::json& one = golden().at("cases").at("llama");
  Counted counted(one);
  const auto lengths = golden().at("lengths").get<std::vector<int64_t>>();
  const auto all = counted.flops().of(packed_batch(lengths));
  // Only the embedding is trained: products with weights have one gradient, attention has two.
  const auto frozen = counted.flops([](uint32_t p) { return p == 0; }).of(packed_batch(lengths));
  REQUIRE(frozen.has_value());
  CHECK(counted.graph.parameters[0].name == "model.embed_tokens.weight");
  CHECK(frozen->forward == all->forward);
  for (size_t b = 0; b < counted.graph.blocks.size(); ++b) {
    CAPTURE(counted.graph.blocks[b].name);
    const bool is_attention = counted.graph.blocks[b].name.ends_with("attention");
    if (is_attention) {
      CHECK(frozen->backward[b] > frozen->forward[b]);
      CHECK(frozen->backward[b] < 2 * frozen->forward[b]);
    } else {
      CHECK(frozen->backward[b] == frozen->forward[b]);
    }
  }
}

TEST_CASE("a recompute adds a forward to the hardware's operations", "[parity]") {
  const nlohmann::json& one = golden().at("cases").at("llama");
  const auto lengths = golden().at("lengths").get<std::vector<int64_t>>();
  Counted counted(one);
  LocalGroup alone;
  const std::vector<uint32_t> twice(counted.graph.blocks.size(), 2);
  FlopMeter meter(counted.flops(), twice, {.flops = 1e6});
  meter.add(packed_batch(lengths));
  const FlopReport report = meter.report(alone, 2.0);
  REQUIRE(report.formulas.size() == 4);
  for (const FormulaFlops& formula : report.formulas) {
    CAPTURE(formula.id);
    CHECK(formula.why_not.empty());
    CHECK(formula.hardware == Approx(formula.model * 4 / 3));
    CHECK(report.utilization(formula.model) == Approx(formula.model / 2e6));
  }
  CHECK(report.formulas[3].model ==
        one.at("forward").get<double>() + one.at("backward").get<double>());
  // A second report has only what was added since; the total has both.
  meter.add(packed_batch(lengths));
  meter.drop_recent();
  CHECK(meter.report(alone, 1.0).formulas[0].model == 0);
  meter.add(packed_batch(lengths));
  CHECK(meter.report(alone, 1.0).formulas[0].model == one.at("palm").get<double>());
  CHECK(meter.total().formulas[0].model == 2 * one.at("palm").get<double>());
  CHECK(meter.total().seconds == 4);
}

TEST_CASE("a formula that does not fit a model says why", "[parity]") {
  ModelProxy mlp(
      make_component("model", "mlp", R"({"in_features": 3, "hidden": [5], "out_features": 2})"));
  const ModelGraph graph = describe_model(mlp);
  FlopMeter meter(ModelFlops({.models = mlp,
                              .graph = graph,
                              .exec = {},
                              .fields = {"features"},
                              .is_trainable = [](uint32_t) { return true; }}),
                  std::vector<uint32_t>(graph.blocks.size(), 1),
                  {.flops = 1e6});
  Batch batch;
  batch.samples = 7;
  batch.schema = std::make_shared<const std::vector<FieldInfo>>(
      std::vector<FieldInfo>{{.name = graph.values[0].source,
                              .dtype = TENON_F32,
                              .axes = {{.name = "B"}, {.name = "", .size = 3}}}});
  batch.fields = {at::zeros({7, 3})};
  meter.add(batch);
  LocalGroup alone;
  const FlopReport report = meter.report(alone, 1.0);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(report.formulas[i].why_not == "no input of the model has an axis T");
    CHECK(report.formulas[i].model == 0);
  }
  CHECK(report.formulas[3].id == "exact");
  CHECK(report.formulas[3].model == 3 * 2 * 7 * (3 * 5 + 5 * 2));

  meter.add(batch);
  batch.samples = 4;  // the last batch of an epoch
  batch.fields = {at::zeros({4, 3})};
  meter.add(batch);
  meter.add(batch);
  CHECK(meter.report(alone, 1.0).formulas[3].model == 3 * 2 * (7 + 4 + 4) * (3 * 5 + 5 * 2));
}

}  // namespace tenon
