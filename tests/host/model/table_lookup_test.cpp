// SPDX-License-Identifier: Apache-2.0
//
// Values that come from tables: how a model declares them, and how a runner gets and gives them.
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/row_source.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/one_row_pass.hpp"
#include "tests/support/test_runner.hpp"

namespace tenon {
namespace {

constexpr tenon_axis kRowAxes[] = {{"B", -1}, {nullptr, 4}};

void make_lookup(tenon_value_spec& spec) {
  spec.source = "user";
  spec.axes = kRowAxes;
  spec.num_axes = 2;
}

// x [B, 4] and the rows r [B, 4] of a lookup: a = tanh(x w0), b = a * r, c = tanh((b + r) w1).
TestModel model_with_rows() {
  TestModel test;
  test.inputs = {"x", "r"};
  test.num_values = 5;
  test.parameters = {{4, 4}, {4, 2}};
  test.lookups[1] = &make_lookup;
  test.blocks = {
      {{0},
       {2},
       {0},
       0,
       [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
         return Tensors{at::tanh(at::matmul(x[0], w[0]))};
       }},
      {{2, 1},
       {3},
       {},
       0,
       [](const Tensors& x, const Tensors&, tenon_forward_args*) { return Tensors{x[0] * x[1]}; }},
      {{3, 1}, {4}, {1}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
         return Tensors{at::tanh(at::matmul(x[0] + x[1], w[0]))};
       }}};
  return test;
}

struct TestRows final : OneRowPass {
  at::Tensor value;
  std::vector<std::string> calls;
  at::Tensor grad;
  at::Tensor ids;

  void start(const Batch* batch, const CallPoint&, Lookup lookup) override {
    calls.push_back(std::string(batch != nullptr ? "begin" : "begin idle") +
                    (lookup == Lookup::kTrain      ? " train"
                     : lookup == Lookup::kEvaluate ? " evaluate"
                     : lookup == Lookup::kReplay   ? " replay"
                                                   : " preview"));
  }
  at::Tensor rows(uint32_t v, const at::Tensor& given) override {
    calls.push_back("rows " + std::to_string(v));
    ids = given;
    return value;
  }
  void take_grad(uint32_t v, const at::Tensor& given) override {
    calls.push_back("grad " + std::to_string(v));
    grad = given;
  }
};

struct LookupRig {
  explicit LookupRig(TestModel& test,
                     RowSource& rows,
                     RecomputeMode recompute = RecomputeMode::kNone)
      : proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test)),
        graph(describe_model(proxy)),
        store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0U; }}),
        frame(proxy.instance().host(), base()),
        runner((store.initialise(proxy, frame.exec(), 7), proxy),
               store,
               base(),
               recompute,
               nullptr,
               &rows) {}

  static ExecBase base() {
    ExecBase base;
    base.compute_dtype = at::kDouble;
    return base;
  }
  Batch batch(const at::Tensor& x) const {
    auto schema = std::make_shared<std::vector<FieldInfo>>(1);
    schema->front().name = "x";
    Batch result;
    result.schema = schema;
    result.fields = {x};
    result.samples = x.size(0);
    return result;
  }

  ModelProxy proxy;
  ModelGraph graph;
  ParameterStore store;
  ExecFrame frame;
  TestRunner runner;
};

const CallPoint kTrainPoint{1, 0, true};

TEST_CASE("rows of tables are leaves of the graph, to the bit", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  TestModel test = model_with_rows();
  TestRows rows;
  rows.value = at::linspace(-0.5, 0.7, 12, at::kFloat).view({3, 4});
  LookupRig rig(test, rows, recompute);
  const at::Tensor x = at::linspace(-1, 1, 12, at::kDouble).view({3, 4});

  at::Tensor r = rows.value.to(at::kDouble);
  r.set_requires_grad(true);
  const at::Tensor w0 = rig.store.leaf(0).detach();
  const at::Tensor w1 = rig.store.leaf(1).detach();
  const at::Tensor c = at::tanh(at::matmul(at::tanh(at::matmul(x, w0)) * r + r, w1));
  const at::Tensor expected = torch::autograd::grad({c.sum()}, {r}).front();

  rig.runner.forward(rig.batch(x), kTrainPoint);
  CHECK(rig.runner.value(4).equal(c.detach()));
  CHECK_FALSE(rows.ids.defined());
  rig.runner.add_grad(4, at::ones_like(c));
  rig.runner.backward(1);
  CHECK(rows.grad.equal(expected));
  // Once each, a recompute notwithstanding; the gradient when the first reader is through.
  CHECK(rows.calls == std::vector<std::string>{"begin train", "rows 1", "grad 1"});
}

TEST_CASE("who only looks says so", "[model]") {
  TestModel test = model_with_rows();
  TestRows rows;
  rows.value = at::ones({3, 4});
  LookupRig rig(test, rows);
  const Batch batch = rig.batch(at::ones({3, 4}, at::kDouble));
  rig.runner.forward(batch, {1, 0, false});
  rig.runner.clear();
  rig.runner.replay(batch, kTrainPoint, [](uint32_t) { return true; });
  rows.value = at::Tensor();
  rig.runner.forward_idle(kTrainPoint);
  rig.runner.backward();
  CHECK(rows.calls == std::vector<std::string>{"begin evaluate",
                                               "rows 1",
                                               "begin replay",
                                               "rows 1",
                                               "begin idle train",
                                               "rows 1",
                                               "grad 1"});
}

TEST_CASE("ids may be made by a block", "[model]") {
  TestModel test = model_with_rows();
  test.lookups.clear();
  test.inputs = {"x"};
  test.num_values = 4;
  test.parameters = {{4, 2}};
  test.lookups[2] = [](tenon_value_spec& spec) {
    spec.ids = 1;
    spec.table = "t";
    spec.axes = kRowAxes;
    spec.num_axes = 2;
  };
  test.blocks = {{{0},
                  {1},
                  {},
                  0,
                  [](const Tensors& x, const Tensors&, tenon_forward_args*) {
                    return Tensors{x[0].select(1, 0).to(at::kLong)};
                  }},
                 {{2}, {3}, {0}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
                    return Tensors{at::matmul(x[0], w[0])};
                  }}};
  TestRows rows;
  rows.value = at::ones({3, 4});
  LookupRig rig(test, rows);
  rig.runner.forward(rig.batch(at::arange(12, at::kDouble).view({3, 4})), kTrainPoint);
  CHECK(rows.ids.equal(at::tensor(std::vector<int64_t>{0, 4, 8}, at::kLong)));
}

std::string refusal(const std::function<void(tenon_value_spec& spec)>& change) {
  TestModel test = model_with_rows();
  test.lookups[1] = [&change](tenon_value_spec& spec) {
    make_lookup(spec);
    change(spec);
  };
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
  try {
    describe_model(proxy);
  } catch (const Error& error) {
    CHECK(error.id() == "model.bad_graph");
    return error.what();
  }
  return "";
}

TEST_CASE("a lookup that contradicts itself is refused", "[model]") {
  static constexpr tenon_axis kThree[] = {{"B", -1}, {nullptr, 2}, {nullptr, 4}};
  static constexpr tenon_axis kOpen[] = {{"B", -1}, {nullptr, -1}};
  CHECK(refusal([](tenon_value_spec&) {}).empty());
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.source = nullptr; }),
             Catch::Contains("'r'") && Catch::Contains("names no column of ids"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.ids = 7; }),
             Catch::Contains("value number 7"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.axes = nullptr; }),
             Catch::Contains("the size of a row"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.axes = kOpen; }),
             Catch::Contains("the size of a row"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.pooling = 99; }),
             Catch::Contains("unknown pooling 99"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.pooling = TENON_POOL_FIRST_N; }),
             Catch::Contains("first 0 rows"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) {
               spec.pooling = TENON_POOL_SUM;
               spec.axes = kThree;
               spec.num_axes = 3;
             }),
             Catch::Contains("3 axes"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.dtype = TENON_I64; }),
             Catch::Contains("floating point"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) { spec.init = TENON_INIT_MODULE; }),
             Catch::Contains("no legal initialiser"));
  CHECK_THAT(refusal([](tenon_value_spec& spec) {
               spec.ids = 0;
               spec.source = nullptr;
               spec.table = "t";
               spec.pooling = TENON_POOL_WEIGHTED_SUM;
             }),
             Catch::Contains("there are no weights"));
}

}  // namespace
}  // namespace tenon
