// SPDX-License-Identifier: Apache-2.0
#include "host/text/byte_size.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/text/seconds_text.hpp"

#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("format puts texts and numbers into a pattern", "[text]") {
  CHECK(formatted("step {} of {}", 3, 10U) == "step 3 of 10");
  CHECK(formatted("{}{}", std::string("a"), std::string_view("b")) == "ab");
  CHECK(formatted("no places") == "no places");
  CHECK(formatted("{\"a\": {}, '}'}", 1) == "{\"a\": 1, '}'}");
  CHECK(formatted("{} and {}", "{}", 'x') == "{} and x");
  CHECK(formatted("{} {} {}", 0.1, 1e300, -2.5F) == "0.1 1e+300 -2.5");
  CHECK(formatted("{}", std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
  CHECK(formatted("{}", std::numeric_limits<uint64_t>::max()) == "18446744073709551615");
}

TEST_CASE("a count agrees with its noun", "[text]") {
  CHECK(counted(1, "step") == "1 step");
  CHECK(counted(0, "step") == "0 steps");
  CHECK(counted(2U, "entry", "entries") == "2 entries");
  CHECK(counted(-1, "step") == "-1 steps");
}

TEST_CASE("texts are joined, and cut at line feeds", "[text]") {
  CHECK(joined({}) == "");
  CHECK(joined({"a"}) == "a");
  CHECK(joined({"a", "b"}) == "a, b");
  CHECK(joined({"", "b"}, " -> ") == " -> b");
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\n\nb\n") == std::vector<std::string_view>{"a", "", "b"});
  CHECK(lines_of("a") == std::vector<std::string_view>{"a"});
}

TEST_CASE("sizes have the unit that keeps them short", "[text]") {
  CHECK(byte_size(0) == "0 B");
  CHECK(byte_size(1023) == "1023 B");
  CHECK(byte_size(1536) == "1.5 KiB");
  CHECK(byte_size(uint64_t{12} << 20) == "12.0 MiB");
  CHECK(byte_size(uint64_t{5} << 28) == "1.25 GiB");
}

TEST_CASE("durations are rounded to what a person reads", "[text]") {
  CHECK(seconds_text(2.54) == "2.5 s");
  CHECK(seconds_text(9.94) == "9.9 s");
  CHECK(seconds_text(9.96) == "10 s");
  CHECK(seconds_text(std::chrono::milliseconds(1500)) == "1.5 s");
}

}  // namespace
}  // namespace tenon
