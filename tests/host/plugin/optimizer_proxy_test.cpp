// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/optimizer_proxy.hpp"

#include <tenon/ports.h>

#include "host/error/status.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_optimizer_info optimizer_info;
tenon_slot_spec slots[2];

tenon_optimizer optimizer_table() {
  slots[0] = {sizeof(tenon_slot_spec), "exp_avg", TENON_SLOT_LIKE_PARAMETER, TENON_CLASS_PARAM, 0};
  slots[1] = {sizeof(tenon_slot_spec), "norm", TENON_SLOT_SCALAR, TENON_F64, 1};
  optimizer_info = {sizeof(optimizer_info), TENON_OPTIMIZER_NORM, 0, slots, 2, 0};
  tenon_optimizer table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_optimizer_info* out) -> tenon_status* {
    *out = optimizer_info;
    return nullptr;
  };
  table.update = [](void*, const tenon_exec*, const tenon_update_args* args) -> tenon_status* {
    return args->num_pieces == 0 ? nullptr
                                 : make_status(nullptr, TENON_INTERNAL, "my.update", "no", "", 0);
  };
  return table;
}

}  // namespace

TEST_CASE("an optimizer says what it keeps and is called", "[plugin]") {
  const tenon_optimizer good = optimizer_table();
  const FakeComponent fake("optimizer", TENON_OPTIMIZER_ID, &good);
  const OptimizerProxy optimizer(fake.make());
  CHECK(optimizer.info().needs == TENON_OPTIMIZER_NORM);
  REQUIRE(optimizer.info().slots.size() == 2);
  CHECK(optimizer.info().slots[0].name == "exp_avg");
  CHECK(optimizer.info().slots[0].dtype == TENON_CLASS_PARAM);
  CHECK(optimizer.info().slots[1].shape == TENON_SLOT_SCALAR);
  CHECK(optimizer.info().slots[1].init == 1);
  tenon_update_args args{};
  CHECK_NOTHROW(optimizer.update(tenon_exec{}, args));
  args.num_pieces = 1;
  CHECK_THROWS_WITH(optimizer.update(tenon_exec{}, args), contains_text("no [my.update]"));
}

TEST_CASE("an optimizer that lacks a function or makes no sense is refused", "[plugin]") {
  tenon_optimizer bad = optimizer_table();
  const FakeComponent fake("optimizer", TENON_OPTIMIZER_ID, &bad);
  slots[1].name = "exp_avg";
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("\"exp_avg\" is declared twice"));
  slots[1].dtype = TENON_CLASS_ANY;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake),
             contains_text("expected a dtype or TENON_CLASS_PARAM"));
  slots[0].shape = 5;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("the unknown shape 5"));
  slots[0].shape = TENON_SLOT_BLOCKWISE;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake),
             contains_text("\"exp_avg\" is BLOCKWISE, but describe returned no block"));
  optimizer_info.needs = TENON_OPTIMIZER_MATRIX;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake),
             contains_text("is BLOCKWISE, which an optimizer of matrices has not"));
  optimizer_info.needs = TENON_OPTIMIZER_NORM;
  for (const uint32_t shape : {TENON_SLOT_ROWS, TENON_SLOT_COLUMNS}) {
    slots[0].shape = shape;
    CHECK_THAT(proxy_error<OptimizerProxy>(fake),
               contains_text("is ROWS or COLUMNS, which only an optimizer of matrices has"));
  }
  optimizer_info.flags = TENON_OPTIMIZER_MATRICES_ONLY;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake),
             contains_text("TENON_OPTIMIZER_MATRICES_ONLY without needs"));
  optimizer_info.flags = 1u << 30;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("the unknown flags 1073741824"));
  optimizer_info.flags = 0;
  for (const int64_t block : {int64_t{-1}, int64_t{1} << 40}) {
    optimizer_info.block = block;
    CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("expected 0 to 65536"));
  }
  optimizer_info.block = 0;
  slots[0].name = "";
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("slot 0 has no name"));
  optimizer_info.slots_ref = nullptr;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("slots at a null pointer"));
  optimizer_info.needs = 3;
  CHECK_THAT(proxy_error<OptimizerProxy>(fake), contains_text("describe returned needs 3"));
  bad.update = nullptr;
  CHECK(proxy_error<OptimizerProxy>(fake) == missing_function("optimizer", "update"));
  bad.describe = nullptr;
  CHECK(proxy_error<OptimizerProxy>(fake) == missing_function("optimizer", "describe"));
}
