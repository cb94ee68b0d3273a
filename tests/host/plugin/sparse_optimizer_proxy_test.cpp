// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/sparse_optimizer_proxy.hpp"

#include <tenon/ports.h>

#include "host/error/status.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_sparse_optimizer_info sparse_optimizer_info;
tenon_row_slot_spec row_slots[2];

tenon_sparse_optimizer sparse_optimizer_table() {
  row_slots[0] = {sizeof(tenon_row_slot_spec), "sum", TENON_ROW_SLOT_LIKE_VALUE, TENON_F32, 0.5};
  row_slots[1] = {sizeof(tenon_row_slot_spec), "norm", TENON_ROW_SLOT_SCALAR, TENON_F64, 0};
  sparse_optimizer_info = {
      sizeof(sparse_optimizer_info), TENON_NARROW_MASTER, 1u << TENON_CPU, row_slots, 2};
  tenon_sparse_optimizer table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_sparse_optimizer_info* out) -> tenon_status* {
    *out = sparse_optimizer_info;
    return nullptr;
  };
  table.update =
      [](void*, const tenon_exec*, const tenon_sparse_update_args* args) -> tenon_status* {
    return args->n == 0 ? nullptr : make_status(nullptr, TENON_INTERNAL, "my.update", "no", "", 0);
  };
  return table;
}

}  // namespace

TEST_CASE("a sparse optimizer says what a row keeps and is called", "[plugin]") {
  const tenon_sparse_optimizer good = sparse_optimizer_table();
  const FakeComponent fake("sparse_optimizer", TENON_SPARSE_OPTIMIZER_ID, &good);
  const SparseOptimizerProxy optimizer(fake.make());
  CHECK(optimizer.info().narrow == TENON_NARROW_MASTER);
  CHECK(optimizer.info().runs_on_cpu);
  CHECK(!optimizer.info().runs_on_cuda);
  REQUIRE(optimizer.info().slots.size() == 2);
  CHECK(optimizer.info().slots[0].name == "sum");
  CHECK(optimizer.info().slots[0].shape == TENON_ROW_SLOT_LIKE_VALUE);
  CHECK(optimizer.info().slots[0].init == 0.5);
  CHECK(optimizer.info().slots[1].shape == TENON_ROW_SLOT_SCALAR);
  CHECK(optimizer.info().slots[1].dtype == TENON_F64);
  tenon_sparse_update_args args{};
  CHECK_NOTHROW(optimizer.update(tenon_exec{}, args));
  args.n = 1;
  CHECK_THROWS_WITH(optimizer.update(tenon_exec{}, args), contains_text("no [my.update]"));
}

TEST_CASE("a sparse optimizer that lacks a function or makes no sense is refused", "[plugin]") {
  tenon_sparse_optimizer bad = sparse_optimizer_table();
  const FakeComponent fake("sparse_optimizer", TENON_SPARSE_OPTIMIZER_ID, &bad);
  const auto error = [&] { return proxy_error<SparseOptimizerProxy>(fake); };
  row_slots[1].name = "sum";
  CHECK_THAT(error(), contains_text("\"sum\" is declared twice"));
  row_slots[1].dtype = TENON_CLASS_ANY;
  CHECK_THAT(error(), contains_text("which is none"));
  row_slots[0].shape = 2;
  CHECK_THAT(error(), contains_text("the unknown shape 2"));
  row_slots[0].name = "";
  CHECK_THAT(error(), contains_text("slot 0 has no name"));
  row_slots[0].struct_size = 8;
  CHECK_THAT(error(), contains_text("tenon_row_slot_spec has struct_size 8"));
  sparse_optimizer_info.slots_ref = nullptr;
  CHECK_THAT(error(), contains_text("slots at a null pointer"));
  sparse_optimizer_info.devices = 8;
  CHECK_THAT(error(), contains_text("describe returned devices 8"));
  sparse_optimizer_info.devices = 0;
  CHECK_THAT(error(), contains_text("describe returned devices 0"));
  sparse_optimizer_info.narrow = 3;
  CHECK_THAT(error(), contains_text("describe returned narrow 3"));
  bad.update = nullptr;
  CHECK(error() == missing_function("sparse_optimizer", "update"));
  bad.describe = nullptr;
  CHECK(error() == missing_function("sparse_optimizer", "describe"));
}
