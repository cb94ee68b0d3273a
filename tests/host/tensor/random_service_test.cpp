// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/random_service.hpp"

#include "host/error/status.hpp"
#include "host/tensor/philox.hpp"

#include <array>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("the random service gives the host's numbers", "[tensor]") {
  const tenon_random_api& api = *random_service();
  CHECK(api.struct_size == sizeof(tenon_random_api));
  CHECK(api.bits(1, 2, 3) == random_bits(1, 2, 3));
  CHECK(api.stream_of("dropout") == stream_of("dropout"));
  CHECK(api.permute(1, 2, 100, 5) == permute(1, 2, 100, 5));

  std::array<double, 5> expected;
  std::array<double, 5> got;
  fill_uniform(1, 2, 7, expected);
  CHECK(api.fill_uniform(1, 2, 7, got.size(), got.data()) == nullptr);
  CHECK(got == expected);
  fill_normal(1, 2, 7, expected);
  CHECK(api.fill_normal(1, 2, 7, got.size(), got.data()) == nullptr);
  CHECK(got == expected);
}

TEST_CASE("the random service survives wrong arguments", "[tensor]") {
  const tenon_random_api& api = *random_service();
  CHECK(take(api.fill_uniform(1, 2, 0, 3, nullptr)).code == TENON_INVALID);
  CHECK(take(api.fill_normal(1, 2, 0, 3, nullptr)).code == TENON_INVALID);
  CHECK(api.fill_normal(1, 2, 0, 0, nullptr) == nullptr);
  CHECK(api.stream_of(nullptr) == stream_of(""));
  CHECK(api.permute(1, 2, 0, 0) == 0);
  CHECK(api.permute(1, 2, 10, 10) == 10);
}

}  // namespace
}  // namespace tenon
