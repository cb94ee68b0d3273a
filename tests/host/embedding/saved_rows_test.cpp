// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/saved_rows.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TableSpec saved_spec(uint32_t dim, uint32_t dtype, std::vector<RowSlot> slots = {}) {
  TableSpec spec;
  spec.name = "user";
  spec.dim = dim;
  spec.value_dtype = dtype;
  spec.has_master = dtype != TENON_F32;
  spec.slots = std::move(slots);
  return spec;
}

const std::vector<RowSlot> kSlots = {{.name = "sum", .init = 0.5},
                                     {.name = "row", .is_scalar = true, .init = 0.5}};

// Rows with the ids, whose elements are id + 0.25 * element, and slots 10 * id and -id.
void fill_ids(Table& table, const std::vector<int64_t>& ids) {
  const size_t dim = table.spec().dim;
  for (const int64_t id : ids) {
    const Table::RowInfo info = {.count = id + 100, .last_step = 7};
    int64_t row = kNoRow;
    table.renew({&id, 1}, {&info, 1}, {&row, 1});
    std::vector<float> values;
    for (size_t k = 0; k < dim; ++k) {
      values.push_back(static_cast<float>(id) + 0.25F * static_cast<float>(k));
    }
    table.write({&row, 1}, values.data(), static_cast<int64_t>(dim));
    for (size_t s = 0; s < table.spec().slots.size(); ++s) {
      auto* const slot = static_cast<float*>(
          tenon_row_field(&table.layout(), row, table.layout().slot_offsets[s]));
      for (size_t k = 0; k < (table.spec().slots[s].is_scalar ? 1 : dim); ++k) {
        slot[k] = s == 0 ? 10.0F * static_cast<float>(id) : -static_cast<float>(id);
      }
    }
  }
}

std::vector<float> saved_row(const Table& table, int64_t id) {
  int64_t row = kNoRow;
  table.find({&id, 1}, {&row, 1});
  std::vector<float> values(table.spec().dim);
  table.read({&row, 1}, values.data(), static_cast<int64_t>(values.size()));
  return values;
}

float slot_of(const Table& table, int64_t id, size_t s) {
  int64_t row = kNoRow;
  table.find({&id, 1}, {&row, 1});
  return *static_cast<float*>(
      tenon_row_field(&table.layout(), row, table.layout().slot_offsets[s]));
}

const auto kAll = [](int64_t) { return true; };

}  // namespace

TEST_CASE("saved rows come to those that a table has", "[embedding]") {
  const uint32_t dtype = GENERATE(uint32_t{TENON_F32}, uint32_t{TENON_BF16});
  Table saved(saved_spec(4, dtype, kSlots));
  fill_ids(saved, {1, 2, 3});
  saved.end_step(9);
  StateTree tree;
  saved.snapshot(tree, "tables/user");

  Table table(saved_spec(4, TENON_F32, kSlots));
  fill_ids(table, {30, 3});
  const int64_t id = 3;
  int64_t row = kNoRow;
  table.find({&id, 1}, {&row, 1});
  table.write({&row, 1}, std::vector<float>(4, 9.0F).data(), 4);

  const auto parts = GENERATE(RowParts::kValues, RowParts::kAll);
  CHECK(take_saved_rows(table, tree, "tables/user", parts, 5, [](int64_t i) { return i != 2; }) ==
        2);
  CHECK(table.num_rows() == 3);
  CHECK(saved_row(table, 1) == std::vector<float>{1, 1.25F, 1.5F, 1.75F});
  CHECK(saved_row(table, 3) == std::vector<float>{3, 3.25F, 3.5F, 3.75F});
  CHECK(saved_row(table, 30) == std::vector<float>{30, 30.25F, 30.5F, 30.75F});
  CHECK(slot_of(table, 1, 0) == (parts == RowParts::kAll ? 10.0F : 0.5F));
  CHECK(slot_of(table, 1, 1) == (parts == RowParts::kAll ? -1.0F : 0.5F));
  CHECK(slot_of(table, 3, 0) == 30.0F);  // what it had is what was saved
  const int64_t first = 1;
  table.find({&first, 1}, {&row, 1});
  CHECK(table.info(row).count == 101);
  CHECK(table.info(row).last_step == 3);  // three steps ago, as of step 6
}

TEST_CASE("a new run that takes the rows of another evicts and admits like one run",
          "[embedding]") {
  TableSpec spec = saved_spec(2, TENON_F32);
  spec.admit.count = 3;
  spec.evict.unseen_steps = 8;
  // Id k occurs in steps that are multiples of k + 1, and early ids no more after step 12.
  const auto run = [](Table& table, int64_t first, int64_t last, int64_t before) {
    for (int64_t step = first; step <= last; ++step) {
      std::vector<int64_t> ids;
      for (int64_t id = 0; id < 20; ++id) {
        if (step % (id + 1) == 0 && (step <= 12 || id > 3)) {
          ids.push_back(id);
        }
      }
      const std::vector<int64_t> counts(ids.size(), 1);
      std::vector<int64_t> rows(ids.size(), kNoRow);
      table.find_or_insert(ids, counts, rows);
      std::vector<int64_t> found;
      std::ranges::copy_if(rows, std::back_inserter(found), [](int64_t r) { return r != kNoRow; });
      table.note_update(found, std::vector<int64_t>(found.size(), 1), step - before);
      table.end_step(step - before);
    }
  };
  Table whole(spec);
  run(whole, 1, 10, 0);
  auto parts = std::make_unique<Table>(spec);
  run(*parts, 1, 10, 0);
  for (int64_t day = 10; day < 40; day += 10) {
    StateTree tree;
    parts->snapshot(tree, "user");
    auto next = std::make_unique<Table>(spec);
    take_saved_rows(*next, tree, "user", RowParts::kAll, 0, kAll);
    run(*next, day + 1, day + 10, day);
    run(whole, day + 1, day + 10, 0);
    CHECK(next->ids() == whole.ids());
    CHECK(next->num_waiting() == whole.num_waiting());
    parts = std::move(next);
  }
  CHECK(whole.take_counts().evicted > 0);
  CHECK(whole.num_waiting() > 0);
  for (const int64_t id : whole.ids()) {
    int64_t row = kNoRow;
    whole.find({&id, 1}, {&row, 1});
    int64_t other = kNoRow;
    parts->find({&id, 1}, {&other, 1});
    CHECK(parts->info(other).count == whole.info(row).count);
    CHECK(parts->info(other).last_step == whole.info(row).last_step);
  }
}

TEST_CASE("rows keep their age in an empty table of a run that is past their steps",
          "[embedding]") {
  TableSpec spec = saved_spec(2, TENON_F32);
  spec.admit.count = 3;
  spec.evict.unseen_steps = 8;
  Table saved(spec);
  fill_ids(saved, {1, 2});
  saved.end_step(9);
  const int64_t waiting = 5;
  const int64_t once = 1;
  int64_t row = kNoRow;
  saved.find_or_insert({&waiting, 1}, {&once, 1}, {&row, 1});
  REQUIRE(saved.num_waiting() == 1);
  StateTree tree;
  saved.snapshot(tree, "user");

  Table table(spec);
  CHECK(take_saved_rows(table, tree, "user", RowParts::kAll, 100, kAll) == 2);
  const int64_t id = 1;
  table.find({&id, 1}, {&row, 1});
  REQUIRE(row != kNoRow);
  CHECK(table.info(row).last_step == 98);  // three steps ago, as of step 101
  table.end_step(101);
  CHECK(table.num_rows() == 2);
  CHECK(table.num_waiting() == 1);
}

TEST_CASE("a saved row of the padding id is left out", "[embedding]") {
  TableSpec spec = saved_spec(2, TENON_F32);
  Table saved(spec);
  fill_ids(saved, {-1, 5});
  StateTree tree;
  saved.snapshot(tree, "user");
  spec.padding_id = -1;
  Table warm(spec);
  CHECK(take_saved_rows(warm, tree, "user", RowParts::kAll, 0, kAll) == 1);
  CHECK(warm.ids() == std::vector<int64_t>{5});
  Table resumed(spec);
  resumed.load(tree, "user");
  CHECK(resumed.ids() == std::vector<int64_t>{5});
}

TEST_CASE("rows go into a table of another dtype, rounded", "[embedding]") {
  Table saved(saved_spec(2, TENON_F32));
  fill_ids(saved, {1000});
  StateTree tree;
  saved.snapshot(tree, "user");
  Table narrow(saved_spec(2, TENON_BF16));
  CHECK(take_saved_rows(narrow, tree, "user", RowParts::kValues, 0, kAll) == 1);
  CHECK(saved_row(narrow, 1000) == std::vector<float>{1000, 1000});  // 1000.25 in bf16
}

TEST_CASE("rows of another dim or optimizer are told apart, and refused", "[embedding]") {
  Table saved(saved_spec(4, TENON_F32, {kSlots[0]}));
  fill_ids(saved, {1});
  StateTree tree;
  saved.snapshot(tree, "user");
  CHECK(misfit_of_saved_rows(saved_spec(4, TENON_F32), tree, "user", RowParts::kAll).empty());
  CHECK(misfit_of_saved_rows(saved_spec(8, TENON_F32), tree, "user", RowParts::kValues) ==
        "rows of 4, and here of 8");
  CHECK(misfit_of_saved_rows(saved_spec(4, TENON_F32, kSlots), tree, "user", RowParts::kAll) ==
        "no slot 'row', which the optimizer here keeps");
  const RowSlot scalar = {.name = "sum", .is_scalar = true};
  CHECK(misfit_of_saved_rows(saved_spec(4, TENON_F32, {scalar}), tree, "user", RowParts::kAll) ==
        "the slot 'sum' as [1, 4], and here it is [1]");
  Table table(saved_spec(8, TENON_F32));
  try {
    take_saved_rows(table, tree, "user", RowParts::kValues, 0, kAll);
    FAIL("no error was raised");
  } catch (const Error& error) {
    CHECK(error.id() == "table.bad_state");
    CHECK_THAT(error.message(), contains_text("rows of 4, and here of 8"));
  }
  CHECK(table.num_rows() == 0);
}

}  // namespace tenon
