// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/loss_proxy.hpp"

#include "host/tensor/exec_frame.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

const tenon_axis kAxes[] = {{"B", -1}, {nullptr, 4}};
const tenon_port kPorts[] = {
    {sizeof(tenon_port), "logits", TENON_CLASS_COMPUTE, 0, kAxes, 2},
    {sizeof(tenon_port), "weight", TENON_F32, TENON_PORT_OPTIONAL, nullptr, 0},
};

tenon_loss loss_table() {
  tenon_loss table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_loss_info* out) -> tenon_status* {
    out->additive_over = TENON_ADDITIVE_TOKENS;
    out->flags = TENON_LOSS_COUNT_FROM_BATCH;
    out->ports_ref = kPorts;
    out->num_ports = 2;
    return nullptr;
  };
  table.count = [](void*, const tenon_exec*, tenon_loss_count_args*) -> tenon_status* {
    return nullptr;
  };
  table.compute = [](void*, const tenon_exec*, tenon_loss_compute_args*) -> tenon_status* {
    return nullptr;
  };
  return table;
}

}  // namespace

TEST_CASE("a loss says what it wants", "[plugin]") {
  const tenon_loss good = loss_table();
  const FakeComponent fake("loss", TENON_LOSS_ID, &good);
  const LossProxy loss(fake.make());
  CHECK(loss.info().additive_over == TENON_ADDITIVE_TOKENS);
  CHECK(loss.info().counts_from_batch);
  CHECK_FALSE(loss.has_backward());
  REQUIRE(loss.info().ports.size() == 2);
  // In brackets: libtorch has an operator<< for any vector, and none for an Axis.
  CHECK((loss.info().ports[0].axes == std::vector<Axis>{{"B", -1}, {"", 4}}));
  CHECK(loss.info().ports[1].is_optional());
  CHECK_FALSE(loss.info().ports[1].axes);
}

TEST_CASE("a loss that lacks a function is refused by the function's name", "[plugin]") {
  tenon_loss bad = loss_table();
  const FakeComponent fake("loss", TENON_LOSS_ID, &bad);
  bad.compute = nullptr;
  CHECK(proxy_error<LossProxy>(fake) == missing_function("loss", "compute"));
  bad.count = nullptr;
  CHECK(proxy_error<LossProxy>(fake) == missing_function("loss", "count"));
  bad.describe = nullptr;
  CHECK(proxy_error<LossProxy>(fake) == missing_function("loss", "describe"));
  bad = loss_table();
  bad.struct_size = offsetof(tenon_loss, compute);
  CHECK(proxy_error<LossProxy>(fake) == missing_function("loss", "compute"));
}

TEST_CASE("a component of another kind is no loss", "[plugin]") {
  const tenon_loss good = loss_table();
  const FakeComponent fake("hook", "tenon.hook/1", &good);
  CHECK(proxy_error<LossProxy>(fake) ==
        "[plugin.missing_interface] " + fake_name("hook") + " does not offer tenon.loss/1");
}

TEST_CASE("a loss that returns success and no tensor is told", "[plugin]") {
  const tenon_loss empty = loss_table();
  const FakeComponent fake("loss", TENON_LOSS_ID, &empty);
  const LossProxy loss(fake.make());
  try {
    loss.compute(tenon_exec{}, nullptr, 0);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.what() ==
          "[plugin.bad_result] " + fake_name("loss") + ": compute returned success and no tensor");
  }
}

TEST_CASE("a loss that describes itself wrongly is refused", "[plugin]") {
  static tenon_loss_info info;
  static tenon_port port;
  port = kPorts[1];
  info = {sizeof(info), TENON_ADDITIVE_NONE, 0, &port, 1};
  tenon_loss odd = loss_table();
  odd.describe = [](void*, tenon_loss_info* out) -> tenon_status* {
    *out = info;
    return nullptr;
  };
  const FakeComponent fake("loss", TENON_LOSS_ID, &odd);
  CHECK(proxy_error<LossProxy>(fake).empty());
  port.name = "";
  CHECK_THAT(proxy_error<LossProxy>(fake), contains_text("port 0 has no name"));
  port = kPorts[1];
  port.dtype = 99;
  CHECK_THAT(proxy_error<LossProxy>(fake),
             contains_text("port \"weight\" has the unknown dtype 99"));
  port = kPorts[1];
  port.struct_size = 8;
  CHECK_THAT(proxy_error<LossProxy>(fake), contains_text("tenon_port has struct_size 8"));
  port = kPorts[0];
  const tenon_axis axes[] = {{"B", -2}, {nullptr, 1}};
  port.axes = axes;
  CHECK_THAT(proxy_error<LossProxy>(fake), contains_text("an axis of size -2"));
  info.ports_ref = nullptr;
  CHECK_THAT(proxy_error<LossProxy>(fake), contains_text("at a null pointer"));
  info = {sizeof(info), 7, 0, &kPorts[1], 1};
  CHECK_THAT(proxy_error<LossProxy>(fake), contains_text("additive_over 7"));
}

TEST_CASE("ports of a later header are read at their own distance", "[plugin]") {
  struct LaterPort {
    tenon_port port;
    const char* added;
  };
  static const LaterPort ports[] = {
      {{sizeof(LaterPort), "a", TENON_F32, 0, nullptr, 0}, "x"},
      {{sizeof(LaterPort), "b", TENON_F32, 0, nullptr, 0}, "y"},
  };
  tenon_loss later = loss_table();
  later.describe = [](void*, tenon_loss_info* out) -> tenon_status* {
    out->ports_ref = &ports[0].port;
    out->num_ports = 2;
    return nullptr;
  };
  const FakeComponent fake("loss", TENON_LOSS_ID, &later);
  const LossProxy loss(fake.make());
  CHECK(loss.info().ports.at(1).name == "b");
}

TEST_CASE("a loss in plain C, without libtorch, computes sum, count and gradient", "[plugin]") {
  ZooFolder zoo;
  zoo.add("good_c");
  PluginRegistry registry(zoo.setup());
  const LossProxy loss(ComponentInstance::create(registry.get("loss", "half_square"),
                                                 {.options_json = "{\"scale\": 3.0}"}));
  REQUIRE(loss.has_backward());
  REQUIRE(loss.info().ports.size() == 2);
  ExecFrame frame(loss.instance().host(), {.tensors = tensor_service(), .ops = op_service()});

  const at::Tensor output = at::tensor({1.0, 2.0, 5.0, -1.0}, at::kDouble).view({2, 2});
  const at::Tensor target = at::tensor({0.5, 2.0, 3.0, 1.0}, at::kDouble).view({2, 2});
  const tenon_tensor* const inputs[] = {borrow(output), borrow(target)};
  const at::Tensor count = take_handle(loss.count(frame.exec(), inputs, 2));
  CHECK(count.item<double>() == 4.0);
  CHECK(count.scalar_type() == at::kDouble);
  const at::Tensor sum = take_handle(loss.compute(frame.exec(), inputs, 2));
  // 3 / 2 * (0.25 + 0 + 4 + 4)
  CHECK(sum.item<double>() == 12.375);

  const at::Tensor grad_sum = at::tensor(0.25, at::kDouble);
  tenon_tensor* grads[2] = {};
  loss.backward(frame.exec(), inputs, 2, borrow(grad_sum), grads);
  const at::Tensor grad = take_handle(grads[0]);
  CHECK(at::equal(grad, (output - target) * 0.75));
  CHECK(grads[1] == nullptr);

  const at::Tensor short_target = target[0];
  const tenon_tensor* const unequal[] = {borrow(output), borrow(short_target)};
  try {
    loss.compute(frame.exec(), unequal, 2);
    FAIL("it was taken");
  } catch (const PluginError& error) {
    CHECK(error.code() == TENON_INVALID);
    CHECK_THAT(error.message(),
               contains_text("output and target differ in shape [zoo.shapes] at good_c.c:"));
  }
}

TEST_CASE("a plugin's loss without compute is told, one without backward is fine", "[plugin]") {
  ZooFolder zoo;
  zoo.add("bad_loss");
  PluginRegistry registry(zoo.setup());
  try {
    LossProxy loss(ComponentInstance::create(registry.get("loss", "no_compute"), {}));
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.id() == "plugin.missing_interface");
    CHECK_THAT(error.message(), contains_text("without its function \"compute\""));
  }
  const LossProxy loss(ComponentInstance::create(registry.get("loss", "short"), {}));
  CHECK_FALSE(loss.has_backward());
}
