// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/table.hpp"

#include <tenon/model.h>

#include "host/embedding/row_values.hpp"
#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TableSpec small_table() {
  TableSpec spec;
  spec.name = "user";
  spec.dim = 4;
  spec.init = {.kind = TENON_INIT_NORMAL, .a = 0, .b = 0.1};
  spec.seed = 7;
  return spec;
}

std::string message_of(const std::function<void()>& body, const std::string& id) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.id() == id);
    return error.message();
  }
  FAIL("no error was raised");
  return "";
}

std::vector<int64_t> range(int64_t first, int64_t end) {
  std::vector<int64_t> ids(static_cast<size_t>(end - first));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int64_t> see(Table& table, const std::vector<int64_t>& ids, int64_t count = 1) {
  std::vector<int64_t> rows(ids.size());
  table.find_or_insert(ids, std::vector<int64_t>(ids.size(), count), rows);
  return rows;
}

void train(Table& table, const std::vector<int64_t>& ids, int64_t step, int64_t count = 1) {
  std::vector<int64_t> rows = see(table, ids, count);
  std::erase(rows, kNoRow);
  table.note_update(rows, std::vector<int64_t>(rows.size(), count), step);
  table.end_step(step);
}

std::vector<float> values_of(const Table& table, const std::vector<int64_t>& rows) {
  std::vector<float> values(rows.size() * table.spec().dim);
  table.read(rows, values.data(), table.spec().dim);
  return values;
}

TEST_CASE("a lookup that only reads inserts nothing and gives the default row", "[embedding]") {
  TableSpec spec = small_table();
  spec.missing = 0.5;
  Table table(spec);
  std::vector<int64_t> rows(2);
  table.find(std::vector<int64_t>{1, 2}, rows);
  CHECK(rows == std::vector<int64_t>{kNoRow, kNoRow});
  CHECK(table.num_rows() == 0);
  CHECK(values_of(table, rows) == std::vector<float>(8, 0.5F));
}

TEST_CASE("a row's values do not depend on when its id came", "[embedding]") {
  Table forward(small_table());
  Table backward(small_table());
  std::vector<int64_t> ids = range(-500, 500);
  std::vector<int64_t> rows_forward = see(forward, ids);
  std::ranges::reverse(ids);
  std::vector<int64_t> rows_backward = see(backward, ids);
  std::ranges::reverse(rows_backward);
  CHECK(values_of(forward, rows_forward) == values_of(backward, rows_backward));
  StateTree a;
  StateTree b;
  forward.snapshot(a, "t");
  backward.snapshot(b, "t");
  CHECK(a == b);
}

TEST_CASE("narrow values are rounded first values, with the unrounded beside them if asked",
          "[embedding]") {
  TableSpec spec = small_table();
  spec.dim = GENERATE(3, 16, 300);
  spec.value_dtype = GENERATE(uint32_t{TENON_BF16}, uint32_t{TENON_F16});
  spec.has_master = GENERATE(false, true);
  spec.slots = {{.name = "exp_avg", .is_scalar = false, .dtype = TENON_F32, .init = 0},
                {.name = "steps", .is_scalar = true, .dtype = TENON_F64, .init = 3}};
  Table table(spec);
  const std::vector<int64_t> rows = see(table, {11});
  std::vector<float> exact(spec.dim);
  fill_row_values(spec.init, spec.seed, 11, exact);
  const at::Tensor rounded = at::tensor(exact)
                                 .to(spec.value_dtype == TENON_BF16 ? at::kBFloat16 : at::kHalf)
                                 .to(at::kFloat);
  const std::vector<float> values = values_of(table, rows);
  CHECK(at::equal(at::tensor(values), rounded));
  const tenon_row_layout& layout = table.layout();
  CHECK((layout.master_offset >= 0) == spec.has_master);
  if (spec.has_master) {
    const auto* master =
        static_cast<const float*>(tenon_row_field(&layout, rows[0], layout.master_offset));
    CHECK(std::equal(exact.begin(), exact.end(), master));
  }
  REQUIRE(layout.num_slots == 2);
  CHECK(*static_cast<double*>(tenon_row_field(&layout, rows[0], layout.slot_offsets[1])) == 3);
  CHECK(layout.slot_offsets[1] % 8 == 0);
  CHECK(layout.stride % 8 == 0);
}

TEST_CASE("ids are let in by how often they were seen", "[embedding]") {
  TableSpec spec = small_table();
  spec.admit.count = 3;
  Table table(spec);
  CHECK(see(table, {1, 2}, 1) == std::vector<int64_t>{kNoRow, kNoRow});
  CHECK(table.num_rows() == 0);
  CHECK(table.num_waiting() == 2);
  std::vector<int64_t> rows(1);
  table.find(std::vector<int64_t>{1}, rows);
  CHECK(rows[0] == kNoRow);
  CHECK(see(table, {1}, 2)[0] != kNoRow);
  CHECK(see(table, {3}, 3)[0] != kNoRow);
  CHECK(table.num_waiting() == 1);
  table.find(std::vector<int64_t>{1}, rows);
  CHECK(table.info(rows[0]).count == 1);  // `note_update` adds what let it in
  const TableCounts counts = table.take_counts();
  CHECK(counts.inserted == 2);
  CHECK(counts.refused == 2);
  CHECK(table.take_counts().inserted == 0);
}

TEST_CASE("a padding id never has a row, also in a table that had one", "[embedding]") {
  // As padding_idx of torch.nn.Embedding: it reads as zeros and is not trained.
  TableSpec spec = small_table();
  spec.padding_id = -1;
  Table table(spec);
  const std::vector<int64_t> rows = see(table, {-1, 5, -1});
  CHECK(rows.front() == kNoRow);
  CHECK(rows.back() == kNoRow);
  CHECK(table.ids() == std::vector<int64_t>{5});
  CHECK(table.num_waiting() == 0);
  CHECK(values_of(table, {rows.front()}) == std::vector<float>(4, 0.0F));
  std::vector<int64_t> imported(1);
  table.renew(std::vector<int64_t>{-1}, std::vector<Table::RowInfo>(1), imported);
  std::vector<int64_t> found(1);
  table.find(std::vector<int64_t>{-1}, found);
  CHECK(found.front() == kNoRow);
  CHECK(see(table, {-1}).front() == kNoRow);
}

TEST_CASE("ids are let in by chance, the same ids each time", "[embedding]") {
  TableSpec spec = small_table();
  spec.admit.probability = 0.2;
  Table table(spec);
  Table at_once(spec);
  constexpr int64_t kIds = 20'000;
  const std::vector<int64_t> ids = range(0, kIds);
  std::vector<double> share;
  for (int seen = 1; seen <= 3; ++seen) {
    see(table, ids);
    share.push_back(static_cast<double>(table.num_rows()) / kIds);
  }
  CHECK(share[0] == Approx(0.2).margin(0.012));
  CHECK(share[1] == Approx(1 - 0.8 * 0.8).margin(0.015));
  CHECK(share[2] == Approx(1 - 0.8 * 0.8 * 0.8).margin(0.015));
  // Three times in one step are three chances.
  see(at_once, ids, 3);
  CHECK(at_once.ids() == table.ids());
}

TEST_CASE("rows that were not seen for so many steps go, and come back fresh", "[embedding]") {
  TableSpec spec = small_table();
  spec.evict.unseen_steps = 4;
  spec.slots = {{.name = "sum", .is_scalar = true, .dtype = TENON_F32, .init = 0.1}};
  Table table(spec);
  train(table, {1, 2}, 0);
  std::vector<int64_t> rows = see(table, {1});
  const std::vector<float> fresh = values_of(table, rows);
  const tenon_row_layout& layout = table.layout();
  *static_cast<float*>(tenon_row_field(&layout, rows[0], 0)) = 99;
  *static_cast<float*>(tenon_row_field(&layout, rows[0], layout.slot_offsets[0])) = 99;
  for (int64_t step = 1; step <= 3; ++step) {
    train(table, {2}, step);
    CHECK(table.num_rows() == 2);
  }
  train(table, {2}, 4);
  CHECK(table.ids() == std::vector<int64_t>{2});
  CHECK(table.take_counts().evicted == 1);
  // The row is used again, by another id and then by nothing of the old.
  CHECK(see(table, {3}) == rows);
  rows = see(table, {1});
  CHECK(values_of(table, rows) == fresh);
  CHECK(*static_cast<float*>(
            tenon_row_field(&table.layout(), rows[0], table.layout().slot_offsets[0])) == 0.1F);
  CHECK(table.info(rows[0]).count == 0);
}

TEST_CASE("unseen rows that came often enough stay", "[embedding]") {
  TableSpec spec = small_table();
  spec.evict.unseen_steps = 1;
  spec.evict.min_count = 10;
  Table table(spec);
  train(table, {1}, 0, /*count=*/10);
  train(table, {2}, 1, /*count=*/9);
  train(table, {3}, 2);
  CHECK(table.ids() == std::vector<int64_t>{1, 3});
}

TEST_CASE("ids that wait to be let in go too when they are not seen", "[embedding]") {
  TableSpec spec = small_table();
  spec.admit.count = 2;
  spec.evict.unseen_steps = 512;
  Table table(spec);
  train(table, {1}, 0);
  for (int64_t step = 1; step < 700; ++step) {
    train(table, {1'000'000 + step}, step);
  }
  CHECK(table.num_rows() == 0);
  CHECK(table.num_waiting() >= 512);
  CHECK(table.num_waiting() < 600);
  CHECK(see(table, {1})[0] == kNoRow);  // what was counted of it is forgotten
  CHECK(see(table, {1'000'699})[0] != kNoRow);
}

TEST_CASE("a table with a bound keeps its most recent or most frequent rows", "[embedding]") {
  const bool by_count = GENERATE(false, true);
  TableSpec spec = small_table();
  spec.evict.max_rows = 1000;
  spec.evict.policy = by_count ? EvictPolicy::kLeastFrequent : EvictPolicy::kLeastRecent;
  Table table(spec);
  // A hundred ids of every step; of the others some come often, at first.
  const std::vector<int64_t> often = range(0, 300);
  const std::vector<int64_t> always = range(1000, 1100);
  for (int64_t step = 1; step <= 200; ++step) {
    std::vector<int64_t> ids = range(10'000 + step * 50, 10'050 + step * 50);
    ids.insert(ids.end(), always.begin(), always.end());
    if (step <= 20) {
      ids.insert(ids.end(), often.begin(), often.end());
    }
    train(table, ids, step, 2);
    REQUIRE(table.num_rows() <= 1000);
    std::vector<int64_t> rows(ids.size());
    table.find(ids, rows);
    REQUIRE(std::ranges::count(rows, kNoRow) == 0);  // those of the step are there
  }
  CHECK(table.num_rows() == 1000);
  std::vector<int64_t> rows(often.size());
  table.find(often, rows);
  const auto kept = 300 - std::ranges::count(rows, kNoRow);
  CAPTURE(by_count, kept);
  CHECK((by_count ? kept > 270 : kept < 30));
}

TEST_CASE("a step with more ids than a table may keep leaves the bound", "[embedding]") {
  TableSpec spec = small_table();
  spec.evict.max_rows = 10;
  Table table(spec);
  train(table, range(0, 100), 1);
  CHECK(table.num_rows() == 10);
  train(table, range(200, 205), 2);
  CHECK(table.num_rows() == 10);
}

TEST_CASE("which rows go does not depend on how they came, nor on saving in between",
          "[embedding]") {
  TableSpec spec = small_table();
  spec.admit.count = 2;
  spec.evict.unseen_steps = 64;
  spec.evict.max_rows = 3000;
  Table table(spec);
  Table loaded(spec);
  const auto ids_of = [](int64_t step) { return range(step * 37, step * 37 + 200); };
  for (int64_t step = 0; step < 300; ++step) {
    if (step == 150) {
      StateTree state;
      table.snapshot(state, "t");
      see(loaded, range(-5000, 0));  // what was there is gone after loading
      loaded.load(state, "t");
    }
    train(table, ids_of(step), step);
    if (step >= 150) {
      std::vector<int64_t> ids = ids_of(step);
      std::ranges::reverse(ids);
      train(loaded, ids, step);
    }
  }
  StateTree a;
  StateTree b;
  table.snapshot(a, "t");
  loaded.snapshot(b, "t");
  CHECK(a == b);
  CHECK(table.num_rows() > 0);
}

TEST_CASE("a table that may take no more memory says so and keeps what it has", "[embedding]") {
  TableSpec spec = small_table();
  spec.max_bytes = 1 << 20;
  Table table(spec);
  const std::vector<int64_t> ids = range(0, 1'000'000);
  std::vector<int64_t> rows(ids.size(), kNoRow);
  const std::vector<int64_t> counts(ids.size(), 1);
  const std::string message =
      message_of([&] { table.find_or_insert(ids, counts, rows); }, "table.full");
  CHECK_THAT(message, contains_text("table 'user' is full: it has "));
  CHECK_THAT(message, contains_text("max_rows"));
  CHECK(table.num_bytes() <= 1 << 20);
  const int64_t n = table.num_rows();
  CHECK(n > 15'000);  // of 24 bytes a row and at most 24 beside it
  std::vector<int64_t> found(ids.size());
  table.find(ids, found);
  CHECK(std::equal(found.begin(), found.begin() + n, rows.begin()));
  CHECK(std::ranges::count(found, kNoRow) == 1'000'000 - n);
  // Old ids go on.
  see(table, range(0, n));
  CHECK_THROWS_AS(see(table, {-1}), Error);
}

TEST_CASE("a table says what it takes, within 24 bytes a row beside the row", "[embedding]") {
  Table table(small_table());
  CHECK(table.row_bytes() == 4 * 4 + 8);
  see(table, range(0, 1'000'000));
  CHECK(table.num_bytes() < 1'000'000 * (table.row_bytes() + 24) + (4 << 20));
}

TEST_CASE("a table of a spec that is none is refused", "[embedding]") {
  const auto refuse = [](const std::function<void(TableSpec&)>& change) {
    TableSpec spec = small_table();
    change(spec);
    return message_of([&] { Table{spec}; }, "table.bad_spec");
  };
  CHECK_THAT(refuse([](TableSpec& s) { s.dim = 0; }), contains_text("table 'user'"));
  refuse([](TableSpec& s) { s.dim = 1U << 30; });
  CHECK_THAT(refuse([](TableSpec& s) { s.value_dtype = TENON_I64; }), contains_text("i64"));
  refuse([](TableSpec& s) { s.has_master = true; });
  refuse([](TableSpec& s) { s.init = {.kind = TENON_INIT_MODULE}; });
  refuse([](TableSpec& s) { s.init = {.kind = TENON_INIT_UNIFORM, .a = 1, .b = 0}; });
  refuse([](TableSpec& s) { s.slots = {{.name = "x", .dtype = TENON_BOOL}}; });
  refuse([](TableSpec& s) { s.admit.count = 0; });
  refuse([](TableSpec& s) { s.admit.probability = 0; });
  refuse([](TableSpec& s) { s.evict.max_rows = 0; });
  refuse([](TableSpec& s) { s.evict.min_count = 5; });
  CHECK_THAT(refuse([](TableSpec& s) { s.max_bytes = 100; }), contains_text("`bytes`"));
}

TEST_CASE("rows of another table are refused, and nothing changes", "[embedding]") {
  Table table(small_table());
  see(table, {1, 2, 3});
  StateTree state;
  table.snapshot(state, "t");
  TableSpec spec = small_table();
  spec.dim = 5;
  Table other(spec);
  see(other, {9});
  CHECK_THAT(message_of([&] { other.load(state, "t"); }, "table.bad_state"),
             contains_text("values is [3, 4] where [3, 5] belongs"));
  CHECK(other.ids() == std::vector<int64_t>{9});
  spec = small_table();
  spec.slots = {{.name = "sum"}};
  Table with_slot(spec);
  CHECK(message_of([&] { with_slot.load(state, "t"); }, "state.missing_entry") != "");

  StateTree twice;
  for (const auto& [name, entry] : state.entries()) {
    if (name == "t/ids") {
      twice.put_tensor(name, at::tensor({1, 2, 1}, at::kLong), StateTree::Copy::kNo, entry.scope);
    } else if (const auto* tensor = std::get_if<at::Tensor>(&entry.value)) {
      twice.put_tensor(name, *tensor, StateTree::Copy::kNo, entry.scope);
    } else {
      twice.put_int(name, std::get<int64_t>(entry.value), entry.scope);
    }
  }
  CHECK_THAT(message_of([&] { table.load(twice, "t"); }, "table.bad_state"),
             contains_text("id 1 stands there twice"));
}

}  // namespace
}  // namespace tenon
