// SPDX-License-Identifier: Apache-2.0
#include "host/io/checked_size.hpp"

#include <vector>

#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("a product or a sum that does not fit is absent", "[io]") {
  constexpr uint64_t kMost = UINT64_MAX;
  CHECK(checked_product(3, 5) == 15);
  CHECK(checked_product(kMost, 1) == kMost);
  CHECK_FALSE(checked_product(uint64_t{1} << 32, uint64_t{1} << 32).has_value());
  CHECK(checked_sum(kMost, 0) == kMost);
  CHECK_FALSE(checked_sum(kMost, 1).has_value());
}

TEST_CASE("the bytes of a shape are absent if a size is negative or the product is too large",
          "[io]") {
  const auto bytes = [](const std::vector<int64_t>& shape) { return checked_bytes(shape, 4); };
  CHECK(bytes({}) == 4);
  CHECK(bytes({2, 3}) == 24);
  CHECK(bytes({0, int64_t{1} << 62}) == 0);
  CHECK_FALSE(bytes({2, -1}).has_value());
  CHECK_FALSE(bytes({-1, -1}).has_value());
  CHECK_FALSE(bytes({int64_t{1} << 32, int64_t{1} << 32}).has_value());
  CHECK_FALSE(bytes({int64_t{1} << 61}).has_value());                 // 2^63 bytes
  CHECK_FALSE(bytes({int64_t{1} << 62, int64_t{4}, 0}).has_value());  // wraps before the 0
}
