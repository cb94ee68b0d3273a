// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/model_proxy.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>

#include <array>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_model model_table() {
  tenon_model table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_model_builder* builder) -> tenon_status* {
    uint32_t index = 0;
    return builder->add_value(builder, nullptr, &index);
  };
  table.forward = [](void*, const tenon_exec*, tenon_forward_args* args) -> tenon_status* {
    args->num_outputs = 1 + args->block;
    return nullptr;
  };
  return table;
}

}  // namespace

TEST_CASE("a model's functions are called", "[plugin]") {
  tenon_model good = model_table();
  FakeComponent fake("model", TENON_MODEL_ID, &good);
  {
    const ModelProxy model(fake.make());
    CHECK_FALSE(model.has_backward());
    CHECK_FALSE(model.has_infer());
    tenon_forward_args args{};
    args.block = 6;
    model.forward(tenon_exec{}, args);
    CHECK(args.num_outputs == 7);
  }
  good.backward = [](void*, const tenon_exec*, const tenon_backward_args* args) -> tenon_status* {
    return make_status(nullptr, TENON_INVALID, "b", args->block == 2 ? "two" : "", "", 0);
  };
  good.infer = [](void*, const tenon_exec*, tenon_infer_args* args) -> tenon_status* {
    args->out_flops = 12;
    return nullptr;
  };
  const ModelProxy model(fake.make());
  REQUIRE(model.has_backward());
  REQUIRE(model.has_infer());
  tenon_backward_args backward{};
  backward.block = 2;
  CHECK_THROWS_WITH(model.backward(tenon_exec{}, backward), contains_text("two [b]"));
  tenon_infer_args infer{};
  model.infer(tenon_exec{}, infer);
  CHECK(infer.out_flops == 12);
}

TEST_CASE("an error of the builder that a model passes on keeps its id", "[plugin]") {
  const tenon_model good = model_table();
  const FakeComponent fake("model", TENON_MODEL_ID, &good);
  const ModelProxy model(fake.make());
  tenon_model_builder builder{};
  builder.add_value = [](tenon_model_builder*, const tenon_value_spec*, uint32_t*) {
    return make_status(nullptr, TENON_INVALID, "model.bad_graph", "value twice", "", 0);
  };
  try {
    model.describe(builder);
    FAIL("it was taken");
  } catch (const PluginError& error) {
    CHECK(error.what() == "[model.bad_graph] " + fake_name("model") + ": value twice");
  }
}

TEST_CASE("a model that lacks a function is refused by the function's name", "[plugin]") {
  tenon_model bad = model_table();
  const FakeComponent fake("model", TENON_MODEL_ID, &bad);
  bad.forward = nullptr;
  CHECK(proxy_error<ModelProxy>(fake) == missing_function("model", "forward"));
  bad.describe = nullptr;
  CHECK(proxy_error<ModelProxy>(fake) == missing_function("model", "describe"));

  // These are needed only by those who declare something that asks for them.
  bad = model_table();
  const ModelProxy model(fake.make());
  CHECK_THROWS_WITH(model.materialize(tenon_exec{}, 0, 0),
                    missing_function("model", "materialize"));
  CHECK_THROWS_WITH(model.fill_buffer(tenon_exec{}, 0, nullptr),
                    missing_function("model", "fill_buffer"));
}

TEST_CASE("a leaf that a model leaves out, or that is no handle, is reported", "[plugin]") {
  tenon_model lazy = model_table();
  lazy.materialize = [](void*, const tenon_exec*, const tenon_materialize_args* args) {
    args->leaves_own[0] = new_handle(at::ones({2}));
    return static_cast<tenon_status*>(nullptr);
  };
  const FakeComponent fake("model", TENON_MODEL_ID, &lazy);
  const ModelProxy model(fake.make());
  CHECK_THROWS_WITH(model.materialize(tenon_exec{}, 3, 2),
                    contains_text("materialize of block 3 returned no leaf for its parameter 1"));
  lazy.materialize = [](void*, const tenon_exec*, const tenon_materialize_args* args) {
    args->leaves_own[0] = reinterpret_cast<tenon_tensor*>(args->leaves_own);
    return static_cast<tenon_status*>(nullptr);
  };
  CHECK_THROWS_WITH(model.materialize(tenon_exec{}, 3, 2),
                    contains_text("materialize stored, as tensor 0, a pointer that is not a handle "
                                  "of this host"));
}
