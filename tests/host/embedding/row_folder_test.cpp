// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_folder.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string failure(const std::filesystem::path& folder, const std::string& table) {
  try {
    row_files(folder, table);
  } catch (const Error& error) {
    CHECK(error.id() == "table.bad_file");
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a file of rows is named after its table and rank", "[embedding]") {
  CHECK(row_file("d", "user", 0, 1) == "d/user.parquet");
  CHECK(row_file("d", "user", 1, 4) == "d/user-00001-of-00004.parquet");
}

TEST_CASE("the files of a table are found for any number of ranks", "[embedding]") {
  const ScratchFolder folder;
  for (int64_t rank = 0; rank < 3; ++rank) {
    folder.write(row_file("", "item", rank, 3), "");
  }
  folder.write("film.linear.parquet", "");
  CHECK(row_files(folder.path(), "film.linear").size() == 1);
  const auto files = row_files(folder.path(), "item");
  REQUIRE(files.size() == 3);
  CHECK(files[1].filename() == "item-00001-of-00003.parquet");
  CHECK(has_row_files(folder.path(), "item"));
  CHECK_FALSE(has_row_files(folder.path(), "user"));
  CHECK_THAT(failure(folder.path(), "user"),
             contains_text("no rows of table 'user'; it has those of film.linear, item"));
  std::filesystem::remove(files[1]);
  CHECK_THAT(failure(folder.path(), "item"),
             contains_text("is missing; the rows of 3 ranks were exported"));
}

}  // namespace tenon
