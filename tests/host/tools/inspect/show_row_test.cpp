// SPDX-License-Identifier: Apache-2.0

#include "host/tools/inspect/show_row.hpp"

#include <tenon/model.h>

#include "host/embedding/row_folder.hpp"
#include "host/embedding/table.hpp"
#include "host/error/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

TEST_CASE("a row is shown in numbers that read back as the same", "[cli]") {
  const std::vector<RowColumn> columns = {{"vector", {double{0.1F}, -2.5, 1e-30F}, true},
                                          {"slot.sum", {0.1}, false}};
  const ShownRow row = {.table = "user", .id = -7, .source = "as it starts"};
  CHECK(row_text(row, columns, RowTextForm::kLines) ==
        "table user, id -7, as it starts\n"
        "  vector    0.1 -2.5 1e-30\n"
        "  slot.sum  0.1\n");
  CHECK(row_text(row, {{"a\nb", {1}, false}, {"c\x1b", {2}, false}}, RowTextForm::kLines) ==
        "table user, id -7, as it starts\n"
        "  a\\x0ab  1\n"
        "  c\\x1b   2\n");
  CHECK(row_text({.table = "user", .id = 1, .source = "p"},
                 {{"vector", {0.5}, true}, {"count", {3}, false}},
                 RowTextForm::kJson) ==
        "{\"table\":\"user\",\"id\":1,\"place\":\"p\",\"columns\":{\"vector\":[0.5],\"count\":3.0}}"
        "\n");
}

TEST_CASE("a row that was exported is shown with its file, and one that was not is an error",
          "[cli]") {
  const ScratchFolder folder;
  TableSpec spec;
  spec.name = std::string("user");
  spec.dim = 2;
  spec.init = {.kind = TENON_INIT_CONSTANT, .a = 0.25};
  Table table(spec);
  const std::vector<int64_t> ids = {42};
  std::vector<int64_t> rows(1);
  table.find_or_insert(ids, std::vector<int64_t>{1}, rows);
  // Of two ranks, the second of which has the row.
  write_rows(Table(spec), RowParts::kValues, row_file(folder.path(), "user", 0, 2));
  const auto file = row_file(folder.path(), "user", 1, 2);
  write_rows(table, RowParts::kValues, file);
  CHECK(exported_row_text(folder.path().string(), "user", 42, RowTextForm::kLines) ==
        "table user, id 42, " + file.string() + "\n  vector  0.25 0.25\n");
  try {
    exported_row_text(folder.path().string(), "user", 43, RowTextForm::kLines);
    FAIL("no error was raised");
  } catch (const Error& error) {
    CHECK(error.id() == "table.no_row");
    CHECK_THAT(error.message(), contains_text("table 'user' has no row of id 43"));
  }
}

}  // namespace
}  // namespace tenon
