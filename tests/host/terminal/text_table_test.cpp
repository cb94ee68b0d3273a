// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/text_table.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("columns are as wide as their widest cell, and no line ends in a blank", "[cli]") {
  CHECK(text_table({{"A", "LONGER", "C"}, {"wide cell", "x", ""}, {"y", "", "z"}}) ==
        "A          LONGER  C\n"
        "wide cell  x\n"
        "y                  z\n");
}

TEST_CASE("a column without a text is left out", "[cli]") {
  CHECK(text_table({{"A", "B", "C"}, {"1", "", "2"}}) == "A  C\n1  2\n");
  CHECK(text_table({{"A", "B"}, {"1", ""}}) == "A\n1\n");
}

TEST_CASE("the last column is wrapped at 100 characters", "[cli]") {
  std::string words;
  for (int i = 0; i < 40; ++i) {
    words += "word ";
  }
  const std::string table = text_table({{"NAME", "TEXT"}, {"x", words}});
  std::size_t num_lines = 0;
  for (std::size_t start = 0; start < table.size(); ++num_lines) {
    const std::size_t end = table.find('\n', start);
    CHECK(end - start <= 100);
    start = end + 1;
  }
  CHECK(num_lines == 4);
  CHECK_THAT(table, contains_text("\n      word"));
}

TEST_CASE("widths are counted in characters", "[cli]") {
  CHECK(text_table({{"A", "B"}, {"\u00e9\u00e9", "x"}, {"ab", "y"}}) ==
        "A   B\n\u00e9\u00e9  x\nab  y\n");
}

TEST_CASE("control characters do not reach the terminal", "[cli]") {
  CHECK(text_table({{"A", "B"}, {"a\x1b[31mb\nc", "d"}}) == "A             B\na\\x1b[31mb c  d\n");
}

TEST_CASE("a table of nothing is empty", "[cli]") {
  CHECK(text_table({}).empty());
  CHECK(text_table({{"A"}}).empty());
}

}  // namespace tenon
