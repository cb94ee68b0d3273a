// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/parquet_footer.hpp"

#include <filesystem>
#include <string>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/crafted_parquet.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a footer that a writer writes may be read", "[embedding]") {
  const auto parity = source_dir() / "tests/parity";
  CHECK(parquet_footer_problem(parity / "rows_of_pyarrow.parquet").empty());
  CHECK(parquet_footer_problem(parity / "rows_before_arrow.parquet").empty());
  const ScratchFolder folder;
  const std::string good = crafted_parquet({{.num_rows = 1, .ids = {7}, .num_vector_values = 3}});
  CHECK(parquet_footer_problem(folder.write("good.parquet", good)).empty());
}

TEST_CASE("a footer of more entries than any table needs is refused before it is built",
          "[embedding]") {
  const ScratchFolder folder;
  // 11 GB in a reader.
  const std::string bomb = parquet_footer_of_chunks(48'000'000, 999'999);
  CHECK(parquet_footer_problem(folder.write("bomb.parquet", bomb)) ==
        "has a footer of more than 1000000 entries");
  const std::string large = parquet_footer_of_chunks(kMaxParquetFooter, 10);
  CHECK_THAT(parquet_footer_problem(folder.write("large.parquet", large)),
             contains_text("at most 67108864 are read"));
  const std::string small = parquet_footer_of_chunks(1'000'000, 1000);
  CHECK(parquet_footer_problem(folder.write("small.parquet", small)).empty());
}

TEST_CASE("the entries that a list claims count, whether they follow or not", "[embedding]") {
  // A struct whose field 1 is a list of structs, with a size of three bytes.
  CHECK_FALSE(has_too_many_items("\x19\xfc\xbf\x84\x3d"));  // the list, and 999,999
  CHECK(has_too_many_items("\x19\xfc\xc0\x84\x3d"));
  CHECK(has_too_many_items("\x19\xfc\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
}

TEST_CASE("a malformed footer is left to the reader", "[embedding]") {
  CHECK_FALSE(has_too_many_items(""));
  CHECK_FALSE(has_too_many_items("\x19"));
  CHECK_FALSE(has_too_many_items("\x1f"));                          // an unknown type
  CHECK_FALSE(has_too_many_items("\x18\xff\xff\xff\xff\x0f"));      // a text beyond the end
  CHECK_FALSE(has_too_many_items(std::string(1'000'000, '\x1c')));  // nested structs
  const ScratchFolder folder;
  CHECK(parquet_footer_problem(folder.write("empty", "")).empty());
  CHECK(parquet_footer_problem(folder.write("text", "PAR1 but no footer")).empty());
  CHECK(parquet_footer_problem(folder.write("far", "PAR1\xff\xff\xff\x7fPAR1")).empty());
}

TEST_CASE("what is no regular file is refused by its kind", "[embedding]") {
  const ScratchFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(parquet_footer_problem(fifo) == "cannot be read: it is a FIFO, not a regular file");
  CHECK(parquet_footer_problem(folder.path()) ==
        "cannot be read: it is a folder, not a regular file");
  CHECK(parquet_footer_problem(folder.path() / "none") ==
        "cannot be read: No such file or directory");
}

}  // namespace tenon
