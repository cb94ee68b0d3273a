// SPDX-License-Identifier: Apache-2.0

#include "host/embedding/row_file.hpp"

#include <tenon/model.h>

#include "host/embedding/row_folder.hpp"
#include "host/error/error.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/crafted_parquet.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

TableSpec spec_of(uint32_t value_dtype, bool has_master) {
  TableSpec spec;
  spec.name = std::string("item");
  spec.dim = 3;
  spec.value_dtype = value_dtype;
  spec.has_master = has_master;
  spec.init = {.kind = TENON_INIT_NORMAL, .a = 0, .b = 1};
  spec.slots.push_back(RowSlot{"sum", true, TENON_F32, 0.5});
  spec.slots.push_back(RowSlot{"exp_avg", false, TENON_BF16, 0});
  spec.slots.push_back(RowSlot{"total", false, TENON_F64, 1});
  spec.seed = 5;
  return spec;
}

// Rows that have been trained on: values and slots that are not those of a new row.
void fill(Table& table, int64_t num_rows) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < num_rows; ++i) {
    ids.push_back(i * i * 31 - 1000);
  }
  std::vector<int64_t> rows(ids.size());
  const std::vector<int64_t> counts(ids.size(), 2);
  table.find_or_insert(ids, counts, rows);
  table.note_update(rows, counts, 12);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto x = static_cast<float>(i);
    const std::vector<float> value = {x, -x / 8, 0.25F};
    table.write({&rows[i], 1}, value.data(), 3);
    const tenon_row_layout& layout = table.layout();
    *static_cast<float*>(tenon_row_field(&layout, rows[i], layout.slot_offsets[0])) = x + 1;
    static_cast<double*>(tenon_row_field(&layout, rows[i], layout.slot_offsets[2]))[2] =
        1.0 / (x + 3);
  }
}

std::string id_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    INFO(error.message());
    CHECK(error.message().size() > 30);
    return error.id();
  }
  return "";
}

StateTree state_of(const Table& table) {
  StateTree state;
  table.snapshot(state, "t");
  return state;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

TEST_CASE("exported rows come back to the bit, with what an optimizer keeps", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  const bool is_narrow = GENERATE(false, true);
  const TableSpec spec = spec_of(is_narrow ? TENON_BF16 : TENON_F32, is_narrow);
  // More than one group of rows, and none.
  const int64_t num_rows = GENERATE(0, 1, 70'000);
  Table table(spec);
  fill(table, num_rows);
  write_rows(table, RowParts::kAll, file);
  Table back(spec);
  CHECK(read_rows(back, file) == num_rows);
  CHECK(state_of(back).get_tensor("t/ids").equal(state_of(table).get_tensor("t/ids")));
  for (const char* name :
       {"values", "slots/sum", "slots/exp_avg", "slots/total", "counts", "last_steps"}) {
    INFO(name);
    CHECK(state_of(back)
              .get_tensor(std::string("t/") + name)
              .equal(state_of(table).get_tensor(std::string("t/") + name)));
  }
}

TEST_CASE("of exported values alone, rows begin with fresh slots", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  const TableSpec spec = spec_of(TENON_F32, false);
  Table table(spec);
  fill(table, 10);
  write_rows(table, RowParts::kValues, file);
  Table back(spec);
  fill(back, 20);  // of which ten are overwritten
  CHECK(read_rows(back, file) == 10);
  CHECK(back.num_rows() == 20);
  std::vector<int64_t> row(1);
  back.find(std::vector<int64_t>{31 - 1000}, row);
  std::vector<float> value(3);
  back.read(row, value.data(), 3);
  CHECK(value == std::vector<float>{1, -0.125F, 0.25F});
  CHECK(*static_cast<float*>(
            tenon_row_field(&back.layout(), row[0], back.layout().slot_offsets[0])) == 0.5F);
  CHECK(back.info(row[0]).count == 0);
}

TEST_CASE("a rank reads its own rows of a file only", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  const TableSpec spec = spec_of(TENON_F32, false);
  Table table(spec);
  fill(table, 100);
  write_rows(table, RowParts::kValues, file);
  Table back(spec);
  CHECK(read_rows(back, file, [](int64_t id) { return id % 2 == 0; }) == 50);
  for (const int64_t id : back.ids()) {
    CHECK(id % 2 == 0);
  }
}

TEST_CASE("one id is found in a file of rows", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  Table table(spec_of(TENON_F32, false));
  fill(table, 70'000);
  write_rows(table, RowParts::kAll, file);
  const int64_t last = int64_t{69'999} * 69'999 * 31 - 1000;
  const auto row = find_row(file, last);
  REQUIRE(row);
  REQUIRE(row->size() == 6);
  CHECK((*row)[0] == RowColumn{"vector", {69'999, -69'999.0 / 8, 0.25}});
  CHECK((*row)[1] == RowColumn{"count", {2}, false});
  CHECK((*row)[2] == RowColumn{"last_step", {12}, false});
  CHECK((*row)[3] == RowColumn{"slot.sum", {70'000}, false});
  CHECK((*row)[5] == RowColumn{"slot.total", {1, 1, 1.0 / 70'002}});
  CHECK_FALSE(find_row(file, last + 1));
}

TEST_CASE("a file of rows that another program wrote is read", "[embedding]") {
  // Of ids in no order, in two groups, with a column of text before them.
  const auto file = source_dir() / "tests/parity/rows_of_pyarrow.parquet";
  Table table(spec_of(TENON_F32, false));
  CHECK(read_rows(table, file) == 4);
  CHECK(table.ids() == std::vector<int64_t>{-3, 5, 7, int64_t{1} << 62});
  CHECK((find_row(file, int64_t{1} << 62) == std::vector<RowColumn>{{"vector", {2, 2.25, 2.5}}}));
  CHECK((find_row(file, 5) == std::vector<RowColumn>{{"vector", {3, 3.25, 3.5}}}));
}

TEST_CASE("rows of f64, f16 and 32-bit ids are read, and NaN is refused", "[embedding]") {
  // By pyarrow and NumPy: tests/parity/rows_of_numpy.py.
  const auto values = [](const std::string& name) {
    Table table(spec_of(TENON_F32, false));
    read_rows(table, source_dir() / "tests/parity" / name);
    const std::vector<int64_t> ids = table.ids();
    std::vector<int64_t> rows(ids.size());
    std::vector<float> numbers(ids.size() * 3);
    table.find(ids, rows);
    table.read(rows, numbers.data(), 3);
    return std::pair(ids, numbers);
  };
  CHECK(values("rows_f64_i32.parquet") ==
        std::pair(std::vector<int64_t>{-3, 7},
                  std::vector<float>{4.0F, 5.0F, 1e-3F, 0.1F, -2.5F, 3.0F}));
  CHECK(values("rows_f16_u32.parquet") ==
        std::pair(std::vector<int64_t>{7, (int64_t{1} << 32) - 3},
                  std::vector<float>{0.0999755859375F, -2.5F, 3, 4, 5, 0.0010004043579101562F}));
  Table table(spec_of(TENON_F32, false));
  try {
    read_rows(table, source_dir() / "tests/parity/rows_nan.parquet");
    FAIL("no error was raised");
  } catch (const Error& error) {
    CHECK(error.id() == "table.bad_file");
    CHECK(error.message().find("has nan in column 'vector', in row 1 of row group 0") !=
          std::string::npos);
  }
}

TEST_CASE("a file of rows that an earlier release wrote is read", "[embedding]") {
  // With optimizer state, written by the host's own writer before it used Arrow.
  const auto file = source_dir() / "tests/parity/rows_before_arrow.parquet";
  Table table(spec_of(TENON_F32, false));
  CHECK(read_rows(table, file) == 5);
  Table same(spec_of(TENON_F32, false));
  fill(same, 5);
  for (const char* name : {"ids", "values", "slots/sum", "slots/total", "counts", "last_steps"}) {
    INFO(name);
    CHECK(state_of(table)
              .get_tensor(std::string("t/") + name)
              .equal(state_of(same).get_tensor(std::string("t/") + name)));
  }
}

TEST_CASE("a file of rows is complete or absent", "[embedding]") {
  const ScratchFolder folder;
  Table table(spec_of(TENON_F32, false));
  fill(table, 3);
  write_rows(table, RowParts::kValues, folder.path() / "item.parquet");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a file that is no file of rows is refused, and the table is as it was", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  Table table(spec_of(TENON_F32, false));
  fill(table, 100);
  write_rows(table, RowParts::kAll, file);
  const std::string bytes = bytes_of(file);
  const auto broken = folder.path() / "broken.parquet";
  const auto refused = [&](const std::string& content) {
    std::ofstream(broken, std::ios::binary | std::ios::trunc) << content;
    Table other(spec_of(TENON_F32, false));
    return id_of([&] { read_rows(other, broken); }) == "table.bad_file" && other.num_rows() == 0;
  };
  CHECK(refused(""));
  CHECK(refused("PAR1PAR1"));
  CHECK(refused(std::string(100, 'x')));
  for (const size_t cut : {size_t{1}, size_t{9}, bytes.size() / 2}) {
    CHECK(refused(bytes.substr(0, bytes.size() - cut)));
  }
  CHECK(id_of([&] { read_rows(table, folder.path() / "none.parquet"); }) == "table.bad_file");
  CHECK(id_of([&] { write_rows(table, RowParts::kAll, folder.path() / "no" / "x.parquet"); }) ==
        "table.bad_file");
  TableSpec wider = spec_of(TENON_F32, false);
  wider.dim = 4;
  Table other(wider);
  CHECK(id_of([&] { read_rows(other, file); }) == "table.bad_file");
  CHECK(other.num_rows() == 0);
}

TEST_CASE("sizes of a file of rows that wrap are refused", "[embedding]") {
  const ScratchFolder folder;
  // Lists of 2^62 numbers, as group 1 has them, in 4 rows of group 0: 2^64 numbers, of which 0 are
  // in the file.
  const auto file = folder.write(
      "c.parquet",
      crafted_parquet({{.num_rows = 4, .ids = {7, 8, 9, 10}, .num_vector_values = 0},
                       {.num_rows = 1, .ids = {1}, .num_vector_values = int64_t{1} << 62}}));
  CHECK(id_of([&] { (void)find_row(file, 7); }) == "table.bad_file");
  const auto rows = folder.write(
      "d.parquet",
      crafted_parquet(
          {{.num_rows = int64_t{1} << 61, .ids = {7}, .num_vector_values = int64_t{1} << 62}}));
  CHECK(id_of([&] { (void)find_row(rows, 7); }) == "table.bad_file");
  const auto negative = folder.write(
      "e.parquet", crafted_parquet({{.num_rows = -1, .ids = {7}, .num_vector_values = -3}}));
  CHECK(id_of([&] { (void)find_row(negative, 7); }) == "table.bad_file");
}

TEST_CASE("a footer that would take gigabytes is refused", "[embedding]") {
  const ScratchFolder folder;
  const auto file = folder.write("c.parquet", parquet_footer_of_chunks(48'000'000, 999'999));
  CHECK(id_of([&] { (void)find_row(file, 7); }) == "table.bad_file");
}

TEST_CASE("files next to the rows stay, and links are not followed", "[embedding]") {
  const ScratchFolder folder;
  const auto victim = folder.write("victim", "precious");
  const auto file = folder.path() / "item.parquet";
  std::filesystem::create_symlink(victim, file.string() + ".partial");
  std::filesystem::create_symlink(victim, file);
  Table table(spec_of(TENON_F32, false));
  fill(table, 3);
  write_rows(table, RowParts::kValues, file);
  CHECK(bytes_of(victim) == "precious");
  CHECK(bytes_of(file).starts_with("PAR1"));
  CHECK_FALSE(std::filesystem::is_symlink(file));
  CHECK(std::filesystem::is_symlink(file.string() + ".partial"));
}

TEST_CASE("a damaged file of rows never does more than be refused", "[embedding]") {
  const ScratchFolder folder;
  const auto file = row_file(folder.path(), "item", 0, 1);
  Table table(spec_of(TENON_F32, false));
  fill(table, 20);
  write_rows(table, RowParts::kAll, file);
  const std::string bytes = bytes_of(file);
  const auto broken = folder.path() / "broken.parquet";
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 3; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    std::ofstream(broken, std::ios::binary | std::ios::trunc) << damaged;
    Table other(spec_of(TENON_F32, false));
    try {
      read_rows(other, broken);
    } catch (const Error& error) {
      CHECK(error.id() == "table.bad_file");
      ++refused;
    }
  }
  CHECK(refused > 100);
}

}  // namespace
TEST_CASE("a row of the padding id in a file is left out", "[embedding]") {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "rows.parquet";
  Table written(spec_of(TENON_F32, false));
  fill(written, 3);
  write_rows(written, RowParts::kValues, file);
  TableSpec spec = spec_of(TENON_F32, false);
  spec.padding_id = written.ids().front();
  Table table(spec);
  CHECK(read_rows(table, file, nullptr) == 2);
  CHECK(table.num_rows() == 2);
}

}  // namespace tenon
