// SPDX-License-Identifier: Apache-2.0
//
// Blocks under graphs of their own against one autograd graph over the same functions.
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/model_fields.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/test_runner.hpp"

namespace tenon {
namespace {

// A test model with all that runs it, in fp64.
struct RunnerRig {
  explicit RunnerRig(TestModel& test, RecomputeMode recompute = RecomputeMode::kNone)
      : proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test)),
        graph(describe_model(proxy)),
        store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0u; }}),
        frame(proxy.instance().host(), base()),
        runner((store.initialise(proxy, frame.exec(), 7), proxy), store, base(), recompute) {}

  static ExecBase base() {
    ExecBase base;
    base.seed = 3;
    base.compute_dtype = at::kDouble;
    return base;
  }

  Batch batch(const Tensors& fields) {
    auto schema = std::make_shared<std::vector<FieldInfo>>();
    for (size_t i = 0; i < fields.size(); ++i) {
      FieldInfo info;
      info.name = graph.values[i].source;
      schema->push_back(info);
    }
    Batch result;
    result.schema = schema;
    result.fields = fields;
    result.samples = 1;
    return result;
  }

  Tensors parameters() {
    Tensors result;
    for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
      result.push_back(store.leaf(p).detach().clone().requires_grad_(true));
    }
    return result;
  }
  at::Tensor grad(uint32_t p) {
    return store.groups()[store.position(p).group].grad_view(store.position(p).entry);
  }

  ModelProxy proxy;
  ModelGraph graph;
  ParameterStore store;
  ExecFrame frame;
  TestRunner runner;
};

const CallPoint kTrain{1, 0, true};

TestBlock linear(uint32_t in, uint32_t out, uint32_t p) {
  return {{in}, {out}, {p}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
            return Tensors{at::tanh(at::matmul(x[0], w[0]))};
          }};
}

// A chain with a skip connection, two inputs to one block and a value that a loss reads twice over.
TestModel skip_model() {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 5;
  test.parameters = {{4, 6}, {6, 6}, {6, 2}};
  test.blocks = {linear(0, 1, 0),
                 linear(1, 2, 1),
                 {{1, 2},
                  {3},
                  {},
                  0,
                  [](const Tensors& x, const Tensors&, tenon_forward_args*) {
                    return Tensors{x[0] * x[1] + x[0]};
                  }},
                 linear(3, 4, 2)};
  return test;
}

}  // namespace

TEST_CASE("blocks under their own graphs give the gradients of one graph, to the bit", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  TestModel test = skip_model();
  RunnerRig rig(test, recompute);
  const at::Tensor x = at::linspace(-1, 1, 12, at::kDouble).view({3, 4});
  const Tensors w = rig.parameters();

  const at::Tensor h = at::tanh(at::matmul(x, w[0]));
  const at::Tensor g = at::tanh(at::matmul(h, w[1]));
  const at::Tensor k = h * g + h;
  const at::Tensor y = at::tanh(at::matmul(k, w[2]));
  const Tensors expected = torch::autograd::grad({y.sum()}, w);

  rig.runner.forward(rig.batch({x}), kTrain);
  CHECK(at::equal(rig.runner.value(4), y));
  rig.runner.add_grad(4, at::ones_like(y));
  rig.runner.backward(1);
  for (uint32_t p = 0; p < 3; ++p) {
    CHECK(at::equal(rig.grad(p), expected[p]));
  }
  CHECK(test.num_forwards == (recompute == RecomputeMode::kNone ? 4 : 8));
}

TEST_CASE("dropout is the same in a recompute, to the bit, and differs from step to step",
          "[model]") {
  const auto run = [](RecomputeMode recompute, uint64_t step) {
    TestModel test;
    test.inputs = {"x"};
    test.num_values = 3;
    test.parameters = {{4, 64}, {64, 2}};
    test.blocks = {linear(0, 1, 0),
                   {{1}, {2}, {1}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
                      return Tensors{at::matmul(at::dropout(x[0], 0.5, true), w[0])};
                    }}};
    RunnerRig rig(test, recompute);
    rig.runner.forward(rig.batch({at::ones({3, 4}, at::kDouble)}), {step, 0, true});
    const at::Tensor y = rig.runner.value(2).clone();
    rig.runner.add_grad(2, at::ones_like(y));
    rig.runner.backward(1);
    return Tensors{y, rig.grad(0).clone(), rig.grad(1).clone()};
  };
  const Tensors plain = run(RecomputeMode::kNone, 1);
  const Tensors again = run(RecomputeMode::kBlocks, 1);
  for (size_t i = 0; i < plain.size(); ++i) {
    CHECK(at::equal(plain[i], again[i]));
  }
  CHECK_FALSE(at::equal(plain[0], run(RecomputeMode::kNone, 2)[0]));
}

TEST_CASE("blocks of a unit are recomputed together, and give the same gradients to the bit",
          "[model]") {
  const auto run = [](const std::vector<std::string>& units, RecomputeMode recompute) {
    TestModel test = skip_model();
    test.units = units;
    RunnerRig rig(test, recompute);
    rig.runner.options.kept = {{4}};
    const at::Tensor x = at::linspace(-1, 1, 12, at::kDouble).view({3, 4});
    rig.runner.forward(rig.batch({x}), kTrain);
    std::vector<bool> kept;
    for (uint32_t v = 0; v < 5; ++v) {
      kept.push_back(rig.runner.value(v).defined());
    }
    rig.runner.add_grad(4, at::ones({3, 2}, at::kDouble));
    rig.runner.backward(1);
    Tensors grads;
    for (uint32_t p = 0; p < 3; ++p) {
      grads.push_back(rig.grad(p).clone());
    }
    return std::tuple(grads, kept, test.num_forwards);
  };
  const auto [plain, all_kept, num_plain] = run({}, RecomputeMode::kNone);
  CHECK(all_kept == std::vector<bool>(5, true));
  CHECK(num_plain == 4);
  using Units = std::vector<std::string>;
  using Kept = std::vector<bool>;
  // Values 1 and 2 are made and read within the first three blocks.
  for (const auto& [units, wanted] :
       {std::pair<Units, Kept>{{"u", "u", "u"}, {true, false, false, true, true}},
        std::pair<Units, Kept>{{"", "u", "u"}, {true, true, false, true, true}},
        std::pair<Units, Kept>{{"u", "u", "u", "u"}, {true, false, false, false, true}},
        std::pair<Units, Kept>{{"u", "u", "w", "w"}, {true, true, true, false, true}}}) {
    CAPTURE(units.size());
    const auto [grads, kept, num_forwards] = run(units, RecomputeMode::kBlocks);
    CHECK(kept == wanted);
    CHECK(num_forwards == 8);
    for (size_t i = 0; i < grads.size(); ++i) {
      CHECK(at::equal(grads[i], plain[i]));
    }
    CHECK(std::get<1>(run(units, RecomputeMode::kNone)) == all_kept);
  }
}

TEST_CASE("blocks that are not recomputed keep what they read in a unit", "[model]") {
  const auto run = [](uint32_t flags, std::vector<bool> only) {
    TestModel test = skip_model();
    test.units = {"u", "u", "u", "u"};
    test.blocks[1].flags = flags;
    RunnerRig rig(test, RecomputeMode::kBlocks);
    rig.runner.options.kept = {{4}};
    if (!only.empty()) {
      rig.runner.options.recomputed = std::move(only);
    }
    rig.runner.forward(rig.batch({at::linspace(-1, 1, 12, at::kDouble).view({3, 4})}), kTrain);
    rig.runner.add_grad(4, at::ones({3, 2}, at::kDouble));
    rig.runner.backward(1);
    return std::pair(Tensors{rig.grad(0).clone(), rig.grad(1).clone(), rig.grad(2).clone()},
                     test.num_forwards);
  };
  const auto [plain, num_plain] = run(0, {false, false, false, false});
  CHECK(num_plain == 4);
  const auto [mixed, num_mixed] = run(TENON_BLOCK_NO_RECOMPUTE, {});
  CHECK(num_mixed == 7);
  const auto [some, num_some] = run(0, {true, true, false, false});
  CHECK(num_some == 6);
  for (size_t i = 0; i < plain.size(); ++i) {
    CHECK(at::equal(mixed[i], plain[i]));
    CHECK(at::equal(some[i], plain[i]));
  }
}

TEST_CASE("a block gets null for an optional input that the batch lacks", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  const bool by_hand = GENERATE(false, true);
  TestModel test;
  test.inputs = {"x", "more"};
  test.value_flags = {0, TENON_VALUE_OPTIONAL};
  test.num_values = 3;
  test.parameters = {{4, 3}};
  test.blocks = {{{0, 1},
                  {2},
                  {0},
                  by_hand ? uint32_t{TENON_BLOCK_HAND_WRITTEN} : 0U,
                  [&](const Tensors& x, const Tensors& w, tenon_forward_args* args) {
                    if (by_hand) {
                      args->save(args, borrow(x[0]));
                    }
                    const at::Tensor y = at::matmul(x[0], w[0]);
                    return Tensors{x[1].defined() ? y + x[1] : y};
                  }}};
  if (by_hand) {
    test.backward = [](const tenon_backward_args* args) {
      REQUIRE(args->want_grad_inputs[1] == 0);
      args->grad_parameters_own[0] =
          new_handle(tensor_of(args->saved[0]).t().matmul(tensor_of(args->grad_outputs[0])));
    };
  }
  RunnerRig rig(test, recompute);
  const at::Tensor w = rig.parameters()[0].detach();
  const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).view({2, 4});
  const at::Tensor more = at::ones({2, 3}, at::kDouble);
  for (const bool has_more : {false, true, false}) {
    CAPTURE(has_more);
    rig.runner.forward(rig.batch(has_more ? Tensors{x, more} : Tensors{x}), kTrain);
    CHECK(rig.runner.value(1).defined() == has_more);
    CHECK(at::allclose(rig.runner.value(2), x.matmul(w) + (has_more ? 1.0 : 0.0)));
    rig.store.groups()[0].clear_grads();
    rig.runner.add_grad(2, at::ones({2, 3}, at::kDouble));
    rig.runner.backward(1);
    CHECK(at::allclose(rig.grad(0), x.t().matmul(at::ones({2, 3}, at::kDouble))));
    rig.runner.forward(rig.batch(has_more ? Tensors{x, more} : Tensors{x}), {1, 0, false});
    CHECK(rig.runner.value(2).defined());
    rig.runner.clear();
  }
  // Datasets may lack the field, but not the others; a field that exists must fit.
  FieldInfo field;
  field.name = "x";
  field.dtype = TENON_F64;
  CHECK_NOTHROW(check_model_fields(rig.graph, {field}, "the dataset"));
  field.name = "more";
  CHECK_THROWS_WITH(check_model_fields(rig.graph, {field}, "the dataset"),
                    contains_text("[model.field_missing]") && contains_text("'x'"));
}

TEST_CASE("a tied parameter gets the sum of the gradients of both its uses", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 3;
  test.parameters = {{4, 4}, {4, 4}};
  test.parameter_tie = "p0";
  test.blocks = {linear(0, 1, 0), linear(1, 2, 1)};
  RunnerRig rig(test);
  CHECK(rig.store.groups().size() == 1);
  const at::Tensor w = rig.parameters()[0];
  const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).view({2, 4});
  const at::Tensor y = at::tanh(at::matmul(at::tanh(at::matmul(x, w)), w));
  rig.runner.forward(rig.batch({x}), kTrain);
  rig.runner.add_grad(2, at::ones_like(y));
  rig.runner.backward(1);
  CHECK(at::equal(rig.grad(0), torch::autograd::grad({y.sum()}, {w})[0]));
}

TEST_CASE("tied parameters of one block get the gradient of both uses once", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 2;
  test.parameters = {{4, 4}, {4, 4}};
  test.parameter_tie = "p0";
  test.blocks = {{{0}, {1}, {0, 1}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
                    return Tensors{at::matmul(at::tanh(at::matmul(x[0], w[0])), w[1])};
                  }}};
  RunnerRig rig(test);
  const at::Tensor w = rig.parameters()[0];
  const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).view({2, 4});
  const at::Tensor y = at::matmul(at::tanh(at::matmul(x, w)), w);
  rig.runner.forward(rig.batch({x}), kTrain);
  rig.runner.add_grad(1, at::ones_like(y));
  rig.runner.backward(1);
  CHECK(at::equal(rig.grad(0), torch::autograd::grad({y.sum()}, {w})[0]));
}

TEST_CASE("a frozen parameter gets no gradient, and the rest is unchanged", "[model]") {
  TestModel test = skip_model();
  RunnerRig all(test);
  const at::Tensor x = at::linspace(-1, 1, 12, at::kDouble).view({3, 4});
  all.runner.forward(all.batch({x}), kTrain);
  all.runner.add_grad(4, at::ones({3, 2}, at::kDouble));
  all.runner.backward(1);

  TestModel second = skip_model();
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, second.table(), &second));
  ModelGraph graph = describe_model(proxy);
  graph.parameters[1].flags |= TENON_PARAM_FROZEN;
  ParameterStore store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0u; }});
  ExecFrame frame(proxy.instance().host(), RunnerRig::base());
  store.initialise(proxy, frame.exec(), 7);
  TestRunner runner(proxy, store, RunnerRig::base(), RecomputeMode::kNone);
  runner.forward(all.batch({x}), kTrain);
  runner.add_grad(4, at::ones({3, 2}, at::kDouble));
  runner.backward(1);
  CHECK_FALSE(store.is_trainable(1));
  const auto& position = store.position(0);
  CHECK(at::equal(store.groups()[position.group].grad_view(position.entry), all.grad(0)));
}

TEST_CASE("a hand-written backward is given what it saved, and null where no gradient is asked for",
          "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 4;
  test.parameters = {{4, 6}, {6}};
  test.blocks = {linear(0, 1, 0),
                 {{1},
                  {2, 3},
                  {1},
                  TENON_BLOCK_HAND_WRITTEN,
                  [](const Tensors& x, const Tensors& w, tenon_forward_args* args) {
                    args->save(args, borrow(x[0]));
                    return Tensors{x[0] * w[0], x[0] + 1};
                  }}};
  bool second_was_null = false;
  test.backward = [&](const tenon_backward_args* args) {
    REQUIRE(args->num_saved == 1);
    second_was_null = args->grad_outputs[1] == nullptr;
    const at::Tensor& x = tensor_of(args->saved[0]);
    const at::Tensor& w = tensor_of(args->parameters[0]);
    const at::Tensor& g = tensor_of(args->grad_outputs[0]);
    REQUIRE(args->want_grad_inputs[0]);
    args->grad_inputs_own[0] = new_handle(g * w);
    args->grad_parameters_own[0] = new_handle((g * x).sum(0));
  };
  RunnerRig rig(test);
  const Tensors w = rig.parameters();
  const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).view({2, 4});
  const at::Tensor y = at::tanh(at::matmul(x, w[0])) * w[1];
  const Tensors expected = torch::autograd::grad({y.sum()}, w);
  rig.runner.forward(rig.batch({x}), kTrain);
  rig.runner.add_grad(2, at::ones_like(y));
  rig.runner.backward(1);
  CHECK(second_was_null);
  CHECK(at::allclose(rig.grad(0), expected[0], 1e-12, 1e-14));
  CHECK(at::allclose(rig.grad(1), expected[1], 1e-12, 1e-14));
}

TEST_CASE("an auxiliary loss reaches the parameters once, with recompute too", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 2;
  test.parameters = {{4, 3}};
  test.blocks = {
      {{0}, {1}, {0}, 0, [](const Tensors& x, const Tensors& w, tenon_forward_args* args) {
         const at::Tensor y = at::matmul(x[0], w[0]);
         const at::Tensor sum = y.pow(2).sum();
         const at::Tensor count = at::scalar_tensor(6.0, at::kDouble);
         args->add_loss(args, "penalty", borrow(sum), borrow(count), 0.25);
         return Tensors{y};
       }}};
  RunnerRig rig(test, recompute);
  const at::Tensor w = rig.parameters()[0];
  const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).view({2, 4});
  const at::Tensor y = at::matmul(x, w);
  const at::Tensor total = y.sum() + 0.5 * 0.25 * y.pow(2).sum() / 6.0;
  rig.runner.forward(rig.batch({x}), kTrain);
  REQUIRE(rig.runner.aux_losses().size() == 1);
  rig.runner.add_grad(1, at::ones_like(y));
  rig.runner.backward(0.5);
  CHECK(at::allclose(rig.grad(0), torch::autograd::grad({total}, {w})[0], 1e-12, 1e-14));
}

TEST_CASE("parameters without a gradient stay untouched", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 3;
  test.parameters = {{4, 2}, {4, 2}};
  test.blocks = {linear(0, 1, 0), linear(0, 2, 1)};
  RunnerRig rig(test);
  rig.runner.forward(rig.batch({at::ones({2, 4}, at::kDouble)}), kTrain);
  rig.runner.add_grad(1, at::ones({2, 2}, at::kDouble));
  rig.runner.backward(1);
  const auto has_grad = [&](uint32_t p) {
    return rig.store.groups()[rig.store.position(p).group]
        .entries()[rig.store.position(p).entry]
        .has_grad;
  };
  CHECK(has_grad(0));
  CHECK_FALSE(has_grad(1));
}

TEST_CASE("leaves of a module are pointed at the host's memory", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 2;
  test.parameters = {{4, 2}};
  test.leaves = {at::full({4, 2}, 0.5, at::kDouble)};
  test.blocks = {{{0},
                  {1},
                  {0},
                  TENON_BLOCK_MATERIALIZED,
                  [&](const Tensors& x, const Tensors&, tenon_forward_args*) {
                    return Tensors{at::matmul(x[0], test.leaves[0])};
                  }}};
  RunnerRig rig(test);
  rig.runner.forward(rig.batch({at::ones({2, 4}, at::kDouble)}), kTrain);
  rig.runner.add_grad(1, at::ones({2, 2}, at::kDouble));
  rig.runner.backward(1);
  CHECK(at::equal(rig.grad(0), at::full({4, 2}, 2.0, at::kDouble)));
  rig.store.groups()[0].data().fill_(2);
  CHECK(at::equal(test.leaves[0].detach(), at::full({4, 2}, 2.0, at::kDouble)));
}

TEST_CASE("blocks see bf16 of fp32 parameters, apart from those that are to stay fp32", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 3;
  test.parameters = {{4, 6}, {6, 2}};
  test.parameter_flags = {0, TENON_PARAM_KEEP_FP32};
  std::vector<at::ScalarType> seen;
  const auto block = [&](uint32_t in, uint32_t out, uint32_t p) -> TestBlock {
    return {{in}, {out}, {p}, 0, [&](const Tensors& x, const Tensors& w, tenon_forward_args*) {
              seen.push_back(w[0].scalar_type());
              return Tensors{at::matmul(x[0].to(w[0].scalar_type()), w[0]).to(at::kBFloat16)};
            }};
  };
  test.blocks = {block(0, 1, 0), block(1, 2, 1)};
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
  const ModelGraph graph = describe_model(proxy);
  const auto stored = GENERATE(at::kFloat, at::kBFloat16);
  ParameterStore store(graph, {stored, at::kCPU, [](uint32_t) { return 0u; }, at::kBFloat16});
  ExecBase base;
  base.compute_dtype = at::kBFloat16;
  ExecFrame frame(proxy.instance().host(), base);
  store.initialise(proxy, frame.exec(), 7);
  TestRunner runner(proxy, store, base, RecomputeMode::kNone);
  Batch batch;
  auto schema = std::make_shared<std::vector<FieldInfo>>();
  schema->emplace_back();
  schema->back().name = "x";
  batch.schema = schema;
  batch.fields = {at::ones({3, 4}, at::kBFloat16)};
  batch.samples = 3;
  runner.forward(batch, kTrain);
  runner.add_grad(2, at::ones({3, 2}, at::kBFloat16));
  runner.backward(1);
  CHECK(seen == std::vector<at::ScalarType>{at::kBFloat16, at::kFloat});
  CHECK(store.groups()[store.position(0).group].dtype() == stored);
  CHECK(store.groups()[store.position(1).group].dtype() == at::kFloat);
  for (const uint32_t p : {0u, 1u}) {
    FlatGroup& group = store.groups()[store.position(p).group];
    CHECK(group.grad_view(store.position(p).entry).abs().sum().item<float>() > 0);
    CHECK(at::equal(store.leaf(p).detach(),
                    group.data_view(store.position(p).entry).to(store.leaf(p).scalar_type())));
    group.data().fill_(1.001);
  }
  store.publish();
  CHECK(store.leaf(0).detach()[0][0].item<float>() == 1);
  CHECK(store.leaf(1).detach()[0][0].item<float>() == 1.001F);
}

TEST_CASE("under autocast blocks compute narrow, and values between them are wide", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 3;
  test.value_dtype = TENON_CLASS_COMPUTE;
  test.parameters = {{4, 6}, {6, 2}};
  std::vector<at::ScalarType> inputs;
  std::vector<at::ScalarType> outputs;
  const auto block = [&](uint32_t in, uint32_t out, uint32_t p) -> TestBlock {
    return {{in}, {out}, {p}, 0, [&](const Tensors& x, const Tensors& w, tenon_forward_args*) {
              inputs.push_back(x[0].scalar_type());
              const at::Tensor y = at::matmul(x[0], w[0]);
              outputs.push_back(y.scalar_type());
              return Tensors{y};
            }};
  };
  test.blocks = {block(0, 1, 0), block(1, 2, 1)};
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
  const ModelGraph graph = describe_model(proxy);
  ParameterStore store(graph, {at::kFloat, at::kCPU, [](uint32_t) { return 0u; }});
  ExecBase base;
  base.autocast_dtype = at::kBFloat16;
  ExecFrame frame(proxy.instance().host(), base);
  store.initialise(proxy, frame.exec(), 7);
  TestRunner runner(proxy, store, base, recompute);
  Batch batch;
  auto schema = std::make_shared<std::vector<FieldInfo>>();
  schema->emplace_back();
  schema->back().name = "x";
  batch.schema = schema;
  batch.fields = {at::ones({3, 4})};
  batch.samples = 3;
  runner.forward(batch, kTrain);
  CHECK(runner.value(2).scalar_type() == at::kFloat);
  runner.add_grad(2, at::ones({3, 2}));
  runner.backward(1);
  const size_t calls = recompute == RecomputeMode::kNone ? 2 : 4;
  CHECK(inputs == std::vector<at::ScalarType>(calls, at::kFloat));
  CHECK(outputs == std::vector<at::ScalarType>(calls, at::kBFloat16));
  const at::Tensor w = store.leaf(1).detach();
  const at::Tensor expected = at::ones({3, 4}).t().matmul(at::ones({3, 2}).matmul(w.t()));
  const at::Tensor grad =
      store.groups()[store.position(0).group].grad_view(store.position(0).entry);
  CHECK(grad.scalar_type() == at::kFloat);
  CHECK(at::allclose(grad, expected, 0.02, 0.02));
}

TEST_CASE("an output that is missing is the plugin's error, naming block and value", "[model]") {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 2;
  test.parameters = {{1}};
  test.blocks = {{{0}, {1}, {0}, 0, [](const Tensors&, const Tensors&, tenon_forward_args*) {
                    return Tensors{};
                  }}};
  RunnerRig rig(test);
  try {
    rig.runner.forward(rig.batch({at::ones({1}, at::kDouble)}), kTrain);
    FAIL("no error was thrown");
  } catch (const Error& error) {
    CHECK(error.id() == "plugin.bad_result");
    CHECK_THAT(error.what(), contains_text("'v1' of block 'block0'"));
  }
}

TEST_CASE("a graph that contradicts itself is refused with names", "[model]") {
  const auto message_of = [](TestModel test) -> std::string {
    ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
    try {
      describe_model(proxy);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  TestModel late = skip_model();
  std::swap(late.blocks[0], late.blocks[1]);
  CHECK_THAT(message_of(late), contains_text("no earlier block makes"));
  TestModel twice = skip_model();
  twice.blocks[1].outputs = {1};
  CHECK_THAT(message_of(twice), contains_text("made by two blocks"));
  TestModel unused = skip_model();
  unused.parameters.push_back({3});
  CHECK_THAT(message_of(unused), contains_text("'p3' is used by no block"));
  TestModel none;
  CHECK_THAT(message_of(none), contains_text("no blocks"));
  TestModel huge = skip_model();
  huge.parameters.push_back({int64_t{1} << 40, int64_t{1} << 40});
  CHECK_THAT(message_of(huge), contains_text("is larger than any memory"));
  TestModel negative = skip_model();
  negative.parameters.push_back({2, -1});
  CHECK_THAT(message_of(negative), contains_text("has a negative size"));
  TestModel deep = skip_model();
  deep.parameters.emplace_back(1000, 1);
  CHECK_THAT(message_of(deep), contains_text("1000 axes, more than any tensor"));
  TestModel shapeless = skip_model();
  shapeless.parameters.push_back({2});
  shapeless.has_null_shapes = true;
  CHECK_THAT(message_of(shapeless), contains_text("is null, and"));
  TestModel odd = skip_model();
  odd.parameters.push_back({2});
  odd.parameter_dtype = 77;
  CHECK_THAT(message_of(odd), contains_text("dtype 77"));
  TestModel listless = skip_model();
  listless.has_null_inputs = true;
  CHECK_THAT(message_of(listless), contains_text("the list of inputs of block 'block0' is null"));
}

TEST_CASE("a graph that asks for what no release has yet is refused", "[model]") {
  const auto id_of = [](TestModel test) -> std::string {
    ModelProxy proxy(made_instance("model", TENON_MODEL_ID, test.table(), &test));
    try {
      describe_model(proxy);
    } catch (const Error& error) {
      return error.id();
    }
    return "";
  };
  CHECK(id_of(skip_model()).empty());
  TestModel collective = skip_model();
  collective.blocks[0].flags = TENON_BLOCK_COLLECTIVE;
  CHECK(id_of(collective) == "model.not_available");
  TestModel expert = skip_model();
  expert.parameter_flags = {TENON_PARAM_EXPERT};
  CHECK(id_of(expert) == "model.not_available");
  TestModel carried = skip_model();
  carried.lookups[1] = [](tenon_value_spec& spec) { spec.source_kind = TENON_SOURCE_CARRY; };
  CHECK(id_of(carried) == "model.not_available");
  TestModel unknown = skip_model();
  unknown.lookups[1] = [](tenon_value_spec& spec) { spec.source_kind = 77; };
  CHECK(id_of(unknown) == "model.bad_graph");
}

}  // namespace tenon
