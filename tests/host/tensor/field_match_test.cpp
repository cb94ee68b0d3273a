// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/field_match.hpp"

#include <tenon/ports.h>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a field fits the dtype that is asked for, and the classes it belongs to", "[tensor]") {
  const auto fits = [](uint32_t have, uint32_t want) {
    return !mismatch({have, nullptr}, {want, nullptr});
  };
  CHECK(fits(TENON_F32, TENON_F32));
  CHECK(fits(TENON_F32, TENON_CLASS_COMPUTE));
  CHECK(fits(TENON_I32, TENON_CLASS_INTEGER));
  CHECK(fits(TENON_I64, TENON_CLASS_ANY));
  CHECK(fits(TENON_CLASS_COMPUTE, TENON_F32));
  CHECK_FALSE(fits(TENON_I32, TENON_I64));
  CHECK_FALSE(fits(TENON_F64, TENON_F32));
  CHECK_FALSE(fits(TENON_F32, TENON_CLASS_INTEGER));
  CHECK_FALSE(fits(TENON_CLASS_COMPUTE, TENON_I64));
}

TEST_CASE("axes fit by number, known sizes, and the names that have a meaning", "[tensor]") {
  const auto fits = [](std::vector<Axis> have, std::vector<Axis> want) {
    return !mismatch({TENON_F32, &have}, {TENON_F32, &want});
  };
  CHECK(fits({{"B", -1}, {"F", 4}}, {{"B", -1}, {"D", 4}}));
  CHECK(fits({{"B", -1}, {"F", 4}}, {{"", -1}, {"", -1}}));
  CHECK_FALSE(fits({{"B", -1}, {"F", 4}}, {{"B", -1}, {"F", 5}}));
  CHECK_FALSE(fits({{"B", -1}}, {{"B", -1}, {"T", -1}}));
  CHECK_FALSE(fits({{"B", -1}, {"T", -1}}, {{"T", -1}, {"B", -1}}));
}

TEST_CASE("a mismatch says both sides in words", "[tensor]") {
  const std::vector<Axis> have = {{"B", -1}};
  const std::vector<Axis> want = {{"B", -1}, {"T", 128}};
  const auto text = mismatch({TENON_I32, &have}, {TENON_CLASS_INTEGER, &want});
  REQUIRE(text.has_value());
  CHECK(*text == "expected any integer [B, 128], found i32 [B]");
}

}  // namespace tenon
