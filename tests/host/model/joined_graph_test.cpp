// SPDX-License-Identifier: Apache-2.0
//
// Several models as one graph: names, indices, what runs and what is kept.
#include "host/model/joined_graph.hpp"

#include <tenon/model.h>

#include "host/model/model_list.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/test_runner.hpp"

namespace tenon {
namespace {

TestBlock times(uint32_t in, uint32_t out, uint32_t p, uint32_t flags = 0) {
  return {{in}, {out}, {p}, flags, [](const Tensors& x, const Tensors& w, tenon_forward_args*) {
            return Tensors{x[0] * w[0]};
          }};
}

// x -> v1 -> v2, and v3 beside v2, of the same parameter.
TestModel two_heads() {
  TestModel model;
  model.inputs = {"x"};
  model.num_values = 4;
  model.parameters = {{}, {}};
  model.blocks = {times(0, 1, 0), times(1, 2, 1), times(1, 3, 1)};
  return model;
}

ModelProxy proxy_of(TestModel& model) {
  return ModelProxy(made_instance("model", TENON_MODEL_ID, model.table(), &model));
}

uint32_t value(const ModelGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &ModelValue::name);
  REQUIRE(found != graph.values.end());
  return static_cast<uint32_t>(found - graph.values.begin());
}

std::vector<std::string> block_names(const ModelGraph& graph) {
  std::vector<std::string> names;
  for (const ModelBlock& block : graph.blocks) {
    names.push_back(block.name);
  }
  return names;
}

ExecBase exec_base() {
  ExecBase base;
  base.compute_dtype = at::kDouble;
  return base;
}

}  // namespace

TEST_CASE("further models run first, frozen, under names of their own", "[model]") {
  TestModel policy = two_heads();
  TestModel reference = two_heads();
  ModelProxy a = proxy_of(policy);
  ModelProxy b = proxy_of(reference);
  const ModelGraph graph =
      join_graphs(describe_model(a), "main", {{"reference", describe_model(b)}});
  CHECK(block_names(graph) == std::vector<std::string>{"reference/block0",
                                                       "reference/block1",
                                                       "reference/block2",
                                                       "block0",
                                                       "block1",
                                                       "block2"});
  CHECK(graph.blocks[4].number == 1);
  CHECK(graph.blocks[4].inputs == std::vector<uint32_t>{1});
  CHECK(graph.blocks[1].parameters == std::vector<uint32_t>{3});
  CHECK(graph.parameters[0].blocks == std::vector<uint32_t>{3});
  CHECK(graph.parameters[2].name == "reference/p0");
  CHECK((graph.parameters[2].flags & TENON_PARAM_FROZEN) != 0);
  CHECK((graph.parameters[0].flags & TENON_PARAM_FROZEN) == 0);
  CHECK(graph.find_output("reference/v2") == 6U);
  CHECK(graph.find_output("v2") == 2U);
  CHECK(graph.num_trained_parameters() == 2);
  CHECK(graph.num_elements() == 2);
}

TEST_CASE("a block that nothing reads is skipped, if another block has its parameters", "[model]") {
  TestModel model = two_heads();
  ModelProxy proxy = proxy_of(model);
  const ModelGraph whole = describe_model(proxy);

  ModelGraph graph = whole;
  skip_unread_blocks(graph, {value(graph, "v3")});
  CHECK(block_names(graph) == std::vector<std::string>{"block0", "block2"});
  CHECK(graph.blocks[1].number == 2);
  CHECK(graph.values[value(graph, "v3")].maker == 1);
  CHECK_FALSE(graph.find_output("v2").has_value());
  CHECK(graph.parameters[1].blocks == std::vector<uint32_t>{1});
  CHECK(graph.values[value(graph, "v1")].users == std::vector<uint32_t>{1});

  graph = whole;  // one of the heads has to keep the parameter
  skip_unread_blocks(graph, {});
  CHECK(block_names(graph) == std::vector<std::string>{"block0", "block1"});

  graph = whole;
  skip_unread_blocks(graph, {value(graph, "v2"), value(graph, "v3")});
  CHECK(graph.blocks.size() == 3);
}

TEST_CASE("a model that is not trained gets no gradients, and keeps only what is read", "[model]") {
  TestModel policy = two_heads();
  TestModel reference = two_heads();
  bool is_recorded = false;
  reference.blocks[0].forward = [&](const Tensors& x, const Tensors& w, tenon_forward_args*) {
    const at::Tensor y = x[0] * w[0];
    is_recorded = is_recorded || y.requires_grad();
    return Tensors{y};
  };
  ModelProxy a = proxy_of(policy);
  ModelProxy b = proxy_of(reference);
  ModelGraph graph = join_graphs(describe_model(a), "main", {{"reference", describe_model(b)}});
  skip_unread_blocks(graph, {value(graph, "v2"), value(graph, "reference/v3")});
  CHECK(block_names(graph) ==
        std::vector<std::string>{"reference/block0", "reference/block2", "block0", "block1"});

  ParameterStore store(graph, {at::kDouble, at::kCPU, [](uint32_t) { return 0u; }});
  ExecFrame frame(a.instance().host(), exec_base());
  store.initialise(a, frame.exec(), 7);
  store.initialise_further(1, b, frame.exec(), 7);
  TestRunner runner(ModelList({&a, &b}), store, exec_base(), RecomputeMode::kNone);
  auto schema = std::make_shared<std::vector<FieldInfo>>(1);
  schema->front().name = "x";
  Batch batch;
  batch.schema = schema;
  batch.samples = 3;
  batch.fields = {at::arange(1, 4).to(at::kDouble)};
  runner.forward(batch, {1, 0, true});
  const at::Tensor expected = batch.fields[0] * store.leaf(2).detach() * store.leaf(3).detach();
  CHECK(at::equal(runner.value(value(graph, "reference/v3")), expected));
  CHECK_FALSE(runner.needs_grad(value(graph, "reference/v3")));
  CHECK_FALSE(runner.value(value(graph, "reference/v1")).defined());
  CHECK(runner.value(value(graph, "v1")).defined());
  CHECK_FALSE(is_recorded);
  CHECK(reference.num_forwards == 2);

  runner.add_grad(value(graph, "v2"), at::ones({3}, at::kDouble));
  runner.backward(1);
  CHECK(store.groups()[store.position(0).group].grad_view(store.position(0).entry).item<double>() ==
        Approx(6 * store.leaf(1).item<double>()));
  CHECK_FALSE(store.is_trainable(2));
}

TEST_CASE("models of one run have one vocabulary", "[model]") {
  TestModel model = two_heads();
  ModelProxy proxy = proxy_of(model);
  ModelGraph trained = describe_model(proxy);
  ModelGraph other = trained;
  trained.values[2].axes = std::vector<Axis>{{"B", -1}, {"V", 64}};
  other.values[2].axes = std::vector<Axis>{{"B", -1}, {"V", 60}};
  CHECK_THROWS_WITH(
      join_graphs(trained, "main", {{"reference", other}}),
      contains_text("the models 'main' and 'reference' have vocabularies of 64 and 60 tokens"));
  other.values[2].axes = std::vector<Axis>{{"B", -1}, {"V", 64}};
  CHECK_NOTHROW(join_graphs(trained, "main", {{"reference", other}}));
}

}  // namespace tenon
