// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/input_binding.hpp"

#include "host/error/error.hpp"

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

using Inputs = std::map<std::string, std::string>;

Port port_of(const std::string& name, uint32_t dtype = TENON_CLASS_ANY, uint32_t flags = 0) {
  Port port;
  port.name = name;
  port.dtype = dtype;
  port.flags = flags;
  return port;
}

InputBinding bound(const ModelGraph& graph,
                   const std::vector<Port>& ports,
                   const Inputs& inputs = {},
                   PortOwner::Kind kind = PortOwner::Kind::kLoss) {
  return {{kind, "loss 'x' (made)"}, ports, inputs, graph, "net"};
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a port reads the output of its name, else the field, or what it is mapped to",
          "[train]") {
  RunRig run;
  run.allocate();
  const InputBinding plain = bound(run.plan.model.graph, {port_of("v1"), port_of("label")});
  CHECK(plain.value(0) == 1u);
  CHECK(plain.values() == std::vector<uint32_t>{1});
  CHECK(plain.fields() == std::vector<std::string>{"label"});
  const InputBinding mapped =
      bound(run.plan.model.graph, {port_of("x"), port_of("y")}, {{"x", "net.v1"}, {"y", "sample"}});
  CHECK(mapped.value(0) == 1u);
  CHECK(mapped.fields() == std::vector<std::string>{"sample"});
}

TEST_CASE("what does not exist is named, with what does", "[train]") {
  RunRig run;
  run.allocate();
  const auto loss = [&](const Inputs& inputs, PortOwner::Kind kind = PortOwner::Kind::kLoss) {
    return error_of([&] { bound(run.plan.model.graph, {port_of("x")}, inputs, kind); });
  };
  CHECK_THAT(loss({{"z", "v1"}}), contains_text("has no input 'z'; its inputs are x"));
  CHECK_THAT(loss({{"x", "net.other"}}),
             contains_text("[loss.unknown_input]") && contains_text("v1"));
  CHECK_THAT(loss({{"x", "net.other"}}, PortOwner::Kind::kMetric),
             contains_text("[metric.unknown_input]"));

  const std::vector<FieldInfo> fields = *sample_schema();
  const std::string missing = error_of(
      [&] { bound(run.plan.model.graph, {port_of("x")}).check_fields(fields, "dataset \"d\""); });
  CHECK_THAT(missing, contains_text("'x'") && contains_text("dataset \"d\" (sample)"));
  const Port optional = port_of("x", TENON_CLASS_ANY, TENON_PORT_OPTIONAL);
  CHECK_NOTHROW(bound(run.plan.model.graph, {optional}).check_fields(fields, "d"));
  CHECK_NOTHROW(bound(run.plan.model.graph, {port_of("sample")}).check_fields(fields, "d"));
  CHECK_THAT(
      error_of([&] {
        bound(run.plan.model.graph, {port_of("sample", TENON_F32)}).check_fields(fields, "d");
      }),
      contains_text("[loss.input_mismatch]"));
}

TEST_CASE("inputs are gathered from the model and the batch, in the dtype of their port",
          "[train]") {
  RunRig run;
  run.allocate();
  InputBinding binding = bound(run.plan.model.graph,
                               {port_of("v1", TENON_CLASS_COMPUTE),
                                port_of("sample"),
                                port_of("absent", TENON_CLASS_ANY, TENON_PORT_OPTIONAL)});
  Batch batch;
  batch.schema = sample_schema();
  batch.fields = {at::arange(3)};
  batch.samples = 3;
  run.model->runner.forward(run.model->state(), batch, {1, 0, true});
  using Outputs = InputBinding::Outputs;
  const BoundInputs leaves =
      binding.gather(&run.model->state(), batch, Outputs::kLeaves, at::kFloat);
  REQUIRE(leaves.size() == 3);
  CHECK(leaves[0].scalar_type() == at::kFloat);
  CHECK(leaves[0].requires_grad());
  CHECK(leaves.has_leaf());
  CHECK(leaves[0].sum().item<float>() == 6);
  CHECK(at::equal(leaves[1], at::arange(3)));
  CHECK(leaves.handles()[2] == nullptr);
  const BoundInputs detached =
      binding.gather(&run.model->state(), batch, Outputs::kDetached, at::kDouble);
  CHECK_FALSE(detached.has_leaf());
  CHECK(leaves[0].requires_grad());  // calls do not share inputs
  const BoundInputs absent = binding.gather(nullptr, batch, Outputs::kAbsent, at::kDouble);
  CHECK(absent.handles()[0] == nullptr);
  run.model->runner.clear(run.model->state());
}

}  // namespace tenon
