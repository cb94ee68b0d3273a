// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/feature_proxy.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

// What the fake infers and makes; tests change it.
tenon_column_type made_type;
size_t num_made;
at::Tensor made_values;
at::Tensor made_level;

tenon_feature feature_table() {
  made_type = {sizeof(made_type), TENON_I64, 1, 0, 0, 0};
  num_made = 1;
  made_values = at::tensor({5, 6, 7}, at::kLong);
  made_level = at::tensor({0, 1, 3}, at::kLong);
  tenon_feature table{};
  table.struct_size = sizeof(table);
  table.infer = [](void*,
                   const tenon_column_type*,
                   size_t,
                   tenon_column_type* outputs,
                   size_t* io_num_outputs) -> tenon_status* {
    outputs[0] = made_type;
    *io_num_outputs = num_made;
    return nullptr;
  };
  table.run = [](const tenon_exec*, tenon_feature_call* calls, size_t n) -> tenon_status* {
    for (size_t i = 0; i < n; ++i) {
      calls[i].outputs[0].values_own = new_handle(made_values);
      if (calls[i].outputs[0].num_levels > 0 && made_level.defined()) {
        calls[i].outputs[0].offsets_own[0] = new_handle(made_level);
      }
    }
    return nullptr;
  };
  return table;
}

const Column kInput = {at::tensor({1, 2}, at::kLong), {}, {}};

}  // namespace

TEST_CASE("a feature makes columns of the types that it inferred", "[plugin]") {
  const tenon_feature good = feature_table();
  const FakeComponent fake("feature", TENON_FEATURE_ID, &good);
  FeatureProxy feature(fake.make());
  const ColumnType given[] = {{.dtype = TENON_I64}};
  const std::vector<ColumnType> inferred = feature.infer(given);
  REQUIRE(inferred.size() == 1);
  CHECK(inferred[0] == ColumnType{.dtype = TENON_I64, .num_levels = 1});
  FeatureCall calls[] = {{.feature = &feature, .inputs = {&kInput}, .outputs = {}},
                         {.feature = &feature, .inputs = {&kInput}, .outputs = {}}};
  FeatureProxy::run(tenon_exec{}, calls, 2);
  for (const FeatureCall& call : calls) {
    REQUIRE(call.outputs.size() == 1);
    CHECK(call.outputs[0].values.equal(made_values));
    CHECK(call.outputs[0].offsets.at(0).equal(made_level));
  }
}

TEST_CASE("a feature that lacks a function is refused by the function's name", "[plugin]") {
  tenon_feature bad = feature_table();
  const FakeComponent fake("feature", TENON_FEATURE_ID, &bad);
  CHECK(proxy_error<FeatureProxy>(fake).empty());
  bad.run = nullptr;
  CHECK(proxy_error<FeatureProxy>(fake) == missing_function("feature", "run"));
  bad.infer = nullptr;
  CHECK(proxy_error<FeatureProxy>(fake) == missing_function("feature", "infer"));
}

TEST_CASE("a feature that infers nonsense is refused", "[plugin]") {
  const tenon_feature odd = feature_table();
  const FakeComponent fake("feature", TENON_FEATURE_ID, &odd);
  const auto refused = [&](const char* reason) {
    INFO(reason);
    try {
      FeatureProxy feature(fake.make());
      const ColumnType given[] = {{.dtype = TENON_I64}};
      feature.infer(given);
    } catch (const Error& error) {
      CHECK_THAT(error.what(), contains_text("[plugin.bad_result] " + fake_name("feature")));
      CHECK_THAT(error.what(), contains_text(reason));
      return;
    }
    FAIL_CHECK("it was taken");
  };
  made_type.dtype = 999;
  refused("of dtype 999");
  made_type = {sizeof(made_type), TENON_I64, 9, 0, 0, 0};
  refused("of 9 levels");
  made_type = {sizeof(made_type), TENON_I64, 1, 1, 0, 0};
  refused("of text that is not u8");
  made_type = {sizeof(made_type), TENON_U8, 0, 1, 0, 0};
  refused("of text that is not u8");
  made_type = {sizeof(made_type), TENON_I64, 0, 0, 1, 0};
  refused("with weights that is not of lists");
  made_type = {sizeof(made_type), TENON_I64, 1, 0, 0, 4};
  refused("of width 4");
  num_made = 0;
  refused("0 outputs");
  num_made = 1000;
  refused("1000 outputs");
}

TEST_CASE("a feature that makes what it did not infer is refused", "[plugin]") {
  const tenon_feature odd = feature_table();
  const FakeComponent fake("feature", TENON_FEATURE_ID, &odd);
  FeatureProxy feature(fake.make());
  const ColumnType given[] = {{.dtype = TENON_I64}};
  feature.infer(given);
  const auto refused = [&](const char* reason) {
    INFO(reason);
    FeatureCall call{.feature = &feature, .inputs = {&kInput}, .outputs = {}};
    try {
      FeatureProxy::run(tenon_exec{}, {&call, 1}, 2);
    } catch (const Error& error) {
      CHECK_THAT(error.what(), contains_text("[plugin.bad_result] " + fake_name("feature")));
      CHECK_THAT(error.what(), contains_text(reason));
      return;
    }
    FAIL_CHECK("it was taken");
  };
  made_level = at::tensor({0, 3, 1}, at::kLong);
  refused("decrease from 3 to 1, at sample 1");
  made_level = at::Tensor();
  refused("absent");
  made_level = at::tensor({0, 1, 3}, at::kLong);
  made_values = at::ones({3});
  refused("expected i64");
}
