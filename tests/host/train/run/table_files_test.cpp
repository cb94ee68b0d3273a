// SPDX-License-Identifier: Apache-2.0

#include "host/train/run/table_files.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"

#include <filesystem>
#include <functional>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

tenon_status* describe(void*, tenon_sparse_optimizer_info* out) {
  out->devices = 1U << TENON_CPU;
  return nullptr;
}
tenon_status* update(void*, const tenon_exec*, const tenon_sparse_update_args*) {
  return nullptr;
}

TableUse use_of(const std::string& name) {
  static const tenon_sparse_optimizer table = {sizeof(tenon_sparse_optimizer), &describe, &update};
  TableSpec spec;
  spec.name = name;
  spec.dim = 2;
  spec.init = {.kind = TENON_INIT_UNIFORM, .a = -1, .b = 1};
  return {.spec = spec,
          .optimizer = SparseOptimizerProxy(
              made_instance("sparse_optimizer", TENON_SPARSE_OPTIMIZER_ID, &table, nullptr))};
}

std::unique_ptr<TableSet> tables_of(const std::vector<std::string>& names) {
  std::vector<TableUse> uses;
  for (const std::string& name : names) {
    uses.push_back(use_of(name));
  }
  return std::make_unique<TableSet>(std::move(uses), std::vector<LookupUse>(), ExecBase());
}

void fill(Table& table, int64_t num_rows) {
  for (int64_t id = 0; id < num_rows; ++id) {
    int64_t row = kNoRow;
    const int64_t count = 1;
    table.find_or_insert({&id, 1}, {&count, 1}, {&row, 1});
    const float value[] = {static_cast<float>(id), 0.5F};
    table.write({&row, 1}, value, 2);
  }
}

std::string files_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("the tables of a run are exported into one folder and imported from it", "[train]") {
  const ScratchFolder scratch;
  const std::string folder = (scratch.path() / "made" / "here").string();
  const auto tables = tables_of({"user", "item"});
  fill(tables->table(0), 30);
  fill(tables->table(1), 5);
  export_tables(*tables, folder, RowParts::kValues, 0, 1);
  CHECK(std::filesystem::exists(std::filesystem::path(folder) / "user.parquet"));
  // A table that is new starts anew.
  const auto again = tables_of({"item", "film"});
  import_tables(*again, folder, nullptr);
  CHECK(again->table(0).ids() == tables->table(1).ids());
  CHECK(again->table(1).num_rows() == 0);
  const int64_t id = 3;
  int64_t row = kNoRow;
  again->table(0).find({&id, 1}, {&row, 1});
  float value[2] = {};
  again->table(0).read({&row, 1}, value, 2);
  CHECK(value[0] == 3);

  const auto half = tables_of({"user"});
  import_tables(*half, folder, [](int64_t own) { return own < 10; });
  CHECK(half->table(0).num_rows() == 10);
}

TEST_CASE("a folder without rows of the run's tables is refused, and one that cannot be made",
          "[train]") {
  const ScratchFolder scratch;
  const auto tables = tables_of({"user"});
  CHECK_THAT(files_error([&] { import_tables(*tables, scratch.path().string(), nullptr); }),
             contains_text("[table.bad_file]"));
  const auto file = scratch.write("file", "");
  CHECK_THAT(files_error(
                 [&] { export_tables(*tables, (file / "folder").string(), RowParts::kAll, 0, 1); }),
             contains_text("[table.bad_file]"));
}

}  // namespace
}  // namespace tenon
