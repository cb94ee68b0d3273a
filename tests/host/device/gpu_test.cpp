// SPDX-License-Identifier: Apache-2.0

#include "host/device/gpu.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("memory is pinned only where there is a GPU", "[device]") {
  CHECK(num_gpus() >= 0);
  CHECK((num_gpus() > 0 || !can_pin_memory()));
  for (int i = 0; i < num_gpus(); ++i) {
    CHECK_FALSE(describe_gpu(i).empty());
  }
}

}  // namespace
}  // namespace tenon
