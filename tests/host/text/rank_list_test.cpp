// SPDX-License-Identifier: Apache-2.0
#include "host/text/rank_list.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("ranks are listed as a sentence has them, neighbours by their ends", "[distributed]") {
  const auto text = [](std::vector<uint32_t> ranks) { return rank_list(ranks); };
  CHECK(text({2}) == "rank 2");
  CHECK(text({0, 1}) == "ranks 0 and 1");
  CHECK(text({0, 2, 5}) == "ranks 0, 2 and 5");
  CHECK(text({0, 1, 2, 3}) == "ranks 0 to 3");
  CHECK(text({0, 1, 2, 5, 6, 9, 10, 11}) == "ranks 0 to 2, 5, 6 and 9 to 11");
}

}  // namespace tenon
