// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/shape_text.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a shape reads as a list of sizes", "[tensor]") {
  CHECK(shape_text({}) == "[]");
  CHECK(shape_text({7}) == "[7]");
  CHECK(shape_text({2, 0, 31}) == "[2, 0, 31]");
}

}  // namespace tenon
