// SPDX-License-Identifier: Apache-2.0

#include "host/data/length_table.hpp"

#include "host/error/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

LengthTable table_of(const std::vector<int64_t>& lengths) {
  return LengthTable("dataset \"d\"",
                     static_cast<int64_t>(lengths.size()),
                     [&](int64_t first, std::span<int64_t> out) {
                       for (size_t i = 0; i < out.size(); ++i) {
                         out[i] = lengths.at(static_cast<size_t>(first) + i);
                       }
                     });
}

std::string error_of(const std::vector<int64_t>& lengths) {
  try {
    table_of(lengths);
  } catch (const Error& error) {
    return "[" + std::string(error.id()) + "] " + error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a table of lengths has those of all calls, and the longest", "[data]") {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 200'000; ++i) {
    lengths.push_back(1 + i % 977);
  }
  lengths[131'072] = 5'000;
  const LengthTable table = table_of(lengths);
  for (const int64_t sample : {0, 1, 65'535, 65'536, 131'072, 199'999}) {
    CHECK(table.at(sample) == lengths[static_cast<size_t>(sample)]);
  }
  CHECK(table.summary().longest == 5'000);
  CHECK(table.summary().sample == 131'072);
  CHECK(table.summary().fingerprint == table_of(lengths).summary().fingerprint);
  std::swap(lengths[3], lengths[4]);
  CHECK(table.summary().fingerprint != table_of(lengths).summary().fingerprint);
  CHECK(table_of({}).summary().longest == 0);
}

TEST_CASE("lengths that cannot be are refused, with their sample", "[data]") {
  CHECK(error_of({3, 0}) ==
        "[data.bad_length] dataset \"d\": sample 1 has the length 0, expected 1 to 2147483647; "
        "remove samples without tokens from the data");
  CHECK(error_of({3, 4, -7}) ==
        "[data.bad_length] dataset \"d\": sample 2 has the length -7, expected 1 to 2147483647; "
        "fix `lengths` of the dataset");
  CHECK(error_of({int64_t{1} << 31}) ==
        "[data.bad_length] dataset \"d\": sample 0 has the length 2147483648, expected 1 to "
        "2147483647; fix `lengths` of the dataset");
  CHECK_FALSE(error_of({1}).starts_with("["));
}

}  // namespace tenon
